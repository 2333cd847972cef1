#include "common/barrier_trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/simt/counts.hpp"

namespace {

void run_once(const Problem& problem, const std::string& name) {
  const auto rung =
      std::find_if(problem.rungs.begin(), problem.rungs.end(), [&](const Rung& r) { return r.name == name; });
  Stream stream;
  problem.poison();
  rung->run(stream, 0);
}

// The message that the run ends with when that barrier is absent; empty where nobody noticed.
std::string refusal(const Problem& problem, const std::string& rung, const std::string& file, int line) {
  struct Absent {
    Absent(const std::string& file, int line) { simt::set_absent_barrier(file, line); }
    ~Absent() { simt::set_absent_barrier("", 0); }
  } const absent(file, line);
  try {
    run_once(problem, rung);
  } catch (const simt::KernelError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

void BarrierTrial::try_rung(const std::function<Problem()>& build, const std::string& rung) {
  const Problem problem = build();
  simt::take_counts();
  run_once(problem, rung);
  std::set<Barrier> barriers;
  for (const simt::KernelCounts& kernel : simt::take_counts())
    for (const simt::BarrierCounts& b : kernel.barrier_lines) barriers.insert({b.file, b.line, b.of_warp});
  for (const Barrier& barrier : barriers) {
    Outcome& outcome = outcomes_[barrier];
    if (!outcome.message.empty()) continue;
    ++outcome.runs;
    outcome.message = refusal(build(), rung, barrier.file, barrier.line);
  }
}

bool BarrierTrial::report(const std::string& folder) const {
  bool all = true;
  for (const auto& [barrier, outcome] : outcomes_) {
    const bool missed = !outcome.message.empty();
    fmt::print(" without the {} of {}:{}:\n   {}\n", barrier.of_warp ? "__syncwarp" : "__syncthreads", barrier.file,
               barrier.line,
               missed ? outcome.message : fmt::format("NOT MISSED: nothing went wrong in {} runs", outcome.runs));
    all = all && (missed || barrier.file.find("/" + folder) == std::string::npos);
  }
  return all;
}
