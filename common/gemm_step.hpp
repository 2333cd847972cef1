// Steps 01 to 04 in one form: rungs that compute the same GEMM, checked against double and timed beside cuBLAS.
#pragma once
#include <string>
#include <vector>

#include "common/gemm.hpp"
#include "common/step.hpp"

class GemmStep {
 public:
  GemmStep(std::string number, std::string title);
  // The best rung of the step before: measured again in this run.
  GemmStep& baseline(std::string name, GemmLauncher launcher) {
    return add(std::move(name), launcher, Rung::kBaseline);
  }
  GemmStep& rung(std::string name, GemmLauncher launcher) { return add(std::move(name), launcher, Rung::kRung); }
  // Shapes that are run when the user names none: on a GPU, and on the executor.
  GemmStep& shapes(std::vector<Shape> gpu, std::vector<Shape> executor);
  operator Step() const;

 private:
  struct Entry {
    std::string name;
    GemmLauncher launcher;
    Rung::Role role;
  };
  GemmStep& add(std::string name, GemmLauncher launcher, Rung::Role role);
  std::string number_, title_;
  std::vector<Shape> gpu_shapes_{{{4096, 4096, 4096}}}, small_shapes_{{{192, 160, 136}}};
  std::vector<Entry> entries_;
};

// cuBLAS SGEMM in plain fp32 (no TF32), or null where the program was built without it or runs on the executor.
GemmLauncher cublas_gemm();
