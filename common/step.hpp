// What every step's main.cu hands over to: check every rung, time it beside its baselines, print one table.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/device.hpp"
#include "common/shape.hpp"
#include "common/verify.hpp"

// One line of the table: a kernel, the step before it, or a vendor library.
struct Rung {
  enum Role { kBaseline, kRung, kPeer };
  std::string name;
  Role role = kRung;
  std::function<void(Stream&, int copy)> run;  // enqueues the work once, on copy number `copy` of the buffers
  std::function<Check()> check;                // compares the output of copy 0 with the reference
  std::string skip;                            // not empty: cannot run here, and why
  std::string note;                            // printed behind the check: which path ran
  bool on_host = false;                        // works on the host itself: a graph cannot repeat it
  double flop = -1, bytes = -1;                // where they differ from the problem's
  double workspace = 0;                        // bytes of device memory beyond inputs and outputs
};

// One shape, built: buffers, reference and rungs.
struct Problem {
  std::string shape, dtype = "fp32";
  double flop = 0, bytes = 0;    // least work: arithmetic, and every input read and output written once
  int copies = 1;                // sets of buffers; more than one keeps a small problem out of the L2
  std::function<void()> poison;  // fills the outputs of copy 0 with NaN
  std::vector<Rung> rungs;
  std::shared_ptr<void> buffers;  // owns what the functions above use
};

struct Step {
  std::string number, title;        // "03", "bank-conflict padding"
  std::string form = "MxNxK";       // what --shape means
  std::vector<Shape> shapes;        // on a GPU
  std::vector<Shape> small_shapes;  // on the executor
  bool memory_bound = false;        // GB/s first, and the copy bandwidth as the ceiling
  std::string peer_name = "cuBLAS";
  std::function<double(const Shape&)> device_bytes;  // device memory that build() will take
  std::function<Problem(const Shape&, uint64_t seed)> build;
};

// Runs the command line of a step. Options: --shape (repeatable) --rung --list --samples --check-only --seed --json
// --order-seed. Returns the exit status (common/error.hpp).
int run_step(const Step& step, int argc, char** argv);

// The same for a step of several tables. A --shape goes to the parts whose form has as many numbers; a part that gets
// none of the named shapes, or has no rung that --rung names, is left out.
int run_steps(const std::vector<Step>& parts, int argc, char** argv);
