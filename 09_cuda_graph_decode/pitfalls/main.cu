// 09 · the pitfalls of a capture, each failing and cured before your eyes
//
// Run: build/bin/step09_pitfalls [NAME]    without a GPU: build/bin/lab09_pitfalls [NAME]
#include "09_cuda_graph_decode/pitfalls/all.hpp"
#include "common/program.hpp"
#include "common/step.hpp"

namespace {

int run(const std::string& wanted) {
  if (const std::string reason = why_no_device(); !reason.empty()) {
    fmt::print(stderr, "{}. build/bin/lab09_pitfalls shows the same on the CPU.\n", reason);
    return kNothingRan;
  }
  int status = kOk, seen = 0;
  for (const Pitfall& pitfall : pitfalls()) {
    if (!wanted.empty() && wanted != pitfall.name) continue;
    ++seen;
    const Shown shown = pitfall.show();
    if (shown.wrong == shown.wanted || shown.right != shown.wanted) status = kCheckFailed;
    fmt::print("{}: {}\n  wanted  {}\n  wrong   {}\n  right   {}\n  CUDA    {}\n", pitfall.name, pitfall.what,
               shown.wanted, shown.wrong, shown.right, pitfall.on_cuda());
  }
  if (seen == 0) throw BadInput("no pitfall of that name: " + wanted);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  return run_main([&] { return run(argc > 1 ? argv[1] : ""); });
}
