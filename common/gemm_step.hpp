// Steps 01 to 04 in one form: rungs that compute the same GEMM, checked against double and timed beside cuBLAS.
#pragma once
#include <string>
#include <vector>

#include "common/gemm.hpp"
#include "common/step.hpp"

// Says which path a launcher takes for this problem; printed behind the check.
using GemmNote = std::string (*)(const Gemm&);

class GemmStep {
 public:
  GemmStep(std::string number, std::string title);
  // The best rung of the step before: measured again in this run.
  GemmStep& baseline(std::string name, GemmLauncher launcher, GemmNote note = nullptr) {
    return add({std::move(name), launcher, Rung::kBaseline, note, 0});
  }
  GemmStep& rung(std::string name, GemmLauncher launcher, GemmNote note = nullptr) {
    return add({std::move(name), launcher, Rung::kRung, note, 0});
  }
  // A loop on the host, left out for shapes of more than most_flop.
  GemmStep& host_rung(std::string name, GemmLauncher launcher, double most_flop) {
    return add({std::move(name), launcher, Rung::kRung, nullptr, most_flop});
  }
  // Shapes that are run when the user names none: on a GPU, and on the executor.
  GemmStep& shapes(std::vector<Shape> gpu, std::vector<Shape> executor);
  operator Step() const;

 private:
  struct Entry {
    std::string name;
    GemmLauncher launcher;
    Rung::Role role;
    GemmNote note;
    double most_host_flop;  // 0: not on the host
  };
  GemmStep& add(Entry entry);
  static Rung make_rung(const Problem& problem, const Shape& shape, const Entry& entry);
  std::string number_, title_;
  std::vector<Shape> gpu_shapes_{{{4096, 4096, 4096}}}, small_shapes_{{{192, 160, 136}}};
  std::vector<Entry> entries_;
};

// cuBLAS SGEMM in plain fp32 (no TF32), or null where the program was built without it or runs on the executor.
GemmLauncher cublas_gemm();
