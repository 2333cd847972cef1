// The program around a reader's kernel file: make lab KERNEL=my.cuh
#include "common/lab/kernel.hpp"
#include "common/step.hpp"

void run(Lab& lab);  // in the reader's file

namespace {

Problem build(const Shape& shape, uint64_t seed) {
  // Once without running anything, to learn what run() says of itself.
  Stream idle;
  std::vector<std::function<void()>> never_run;
  idle.recording = &never_run;
  Lab said(idle, shape[0], seed);
  run(said);

  auto check = std::make_shared<Check>();
  Problem problem;
  problem.shape = shape.text();
  problem.flop = said.flop;
  problem.bytes = said.least_bytes;
  problem.poison = [] {};
  Rung rung;
  rung.name = KERNEL_NAME;
  rung.note = said.expected() ? "" : "the result is not checked: run() has no lab.expect()";
  rung.run = [=](Stream& stream, int) {
    Lab lab(stream, shape[0], seed);
    run(lab);
    *check = lab.check();
  };
  rung.check = [check] { return *check; };
  problem.rungs.push_back(rung);
  return problem;
}

}  // namespace

int main(int argc, char** argv) {
  Step step;
  step.title = KERNEL_NAME;
  step.form = "N";
  step.small_shapes = {{{1024}}};
  step.device_bytes = [](const Shape&) { return 0.0; };
  step.build = build;
  return run_step(step, argc, argv);
}
