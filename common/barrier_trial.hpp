// Executor only: takes every barrier of the kernels away, one at a time, and sees whether the checks of the instrumented
// build catch what happens then.
#pragma once
#include <map>

#include "common/step.hpp"

class BarrierTrial {
 public:
  // Tries the barriers of all kernels that a rung starts, but those that some run has missed already. `build` makes the
  // problem anew for every run, because a kernel that is stopped leaves its scratch memory as it was.
  void try_rung(const std::function<Problem()>& build, const std::string& rung);
  // A line a barrier: what the run without it was stopped with. Returns whether every barrier of the folder was missed
  // in some run; those of earlier steps, of which a part may not matter here, are tried in their own.
  bool report(const std::string& folder) const;

 private:
  struct Barrier {
    std::string file;
    int line;
    bool of_warp;
    bool operator<(const Barrier& o) const { return file != o.file ? file < o.file : line < o.line; }
  };
  struct Outcome {
    int runs = 0;
    std::string message;  // empty: none of the runs was stopped
  };
  std::map<Barrier, Outcome> outcomes_;
};
