#include <algorithm>
#include <cmath>

#include "05_online_softmax/softmax.cuh"
#include "05_online_softmax/softmax_reference.hpp"
#include "common/random.hpp"
#include "common/step.hpp"

namespace {

struct Buffers {
  std::vector<DeviceBuffer<float>> x, y;  // one pair a copy
  std::vector<double> want;
  SoftmaxScratch scratch;
};

// So many copies that a run finds none of its input in the L2.
int copies_of(const Shape& shape) {
  const double bytes = 8.0 * shape[0] * shape[1];
  return int(std::clamp(std::ceil(4.0 * double(device().l2_bytes) / bytes), 1.0, 256.0));
}

using Launcher = std::function<void(Stream&, const float* x, float* y, int64_t rows, int cols)>;

Problem build(const Shape& shape, uint64_t seed) {
  const int rows = shape[0], cols = shape[1];
  const size_t count = size_t(rows) * cols;
  auto buffers = std::make_shared<Buffers>();
  std::vector<float> x = random_uniform(count, seed);
  for (float& v : x) v *= 10.f;
  Problem problem;
  problem.copies = copies_of(shape);
  for (int i = 0; i < problem.copies; ++i) buffers->x.emplace_back(x), buffers->y.emplace_back(count);
  buffers->want = softmax_reference(x, rows, cols);
  problem.shape = shape.text();
  problem.flop = 5.0 * double(count);  // compare, subtract, exp, add, multiply
  problem.bytes = 8.0 * double(count);
  problem.poison = [buffers] { buffers->y[0].poison(); };
  problem.buffers = buffers;

  const auto add = [&](const char* name, Rung::Role role, Launcher launcher, const char* skip = "") {
    Rung rung;
    rung.name = name;
    rung.role = role;
    rung.skip = skip;
    rung.run = [=](Stream& s, int i) { launcher(s, buffers->x[i].data(), buffers->y[i].data(), rows, cols); };
    rung.check = [=] {
      const double relative = softmax_tolerance(cols, 20);
      const auto tolerance = [&](size_t i) { return relative * buffers->want[i] + kSmallestProbability; };
      return compare(buffers->y[0].to_host(), buffers->want, tolerance, size_t(cols));
    };
    problem.rungs.push_back(std::move(rung));
  };
  add("05 three passes", Rung::kBaseline, softmax_three_passes);
  add("05 two passes, online", Rung::kRung, softmax_two_passes);
  add("05 one pass, row in registers", Rung::kRung, softmax_registers,
      cols > kRegisterCols ? "the row is longer than a block's registers" : "");
  add("05 one pass, row in shared memory", Rung::kRung,
      [](Stream& s, const float* x, float* y, int64_t r, int c) { softmax_shared(s, x, y, r, c); });
  SoftmaxScratch* scratch = &buffers->scratch;
  add(
      "05 several blocks a row", Rung::kRung,
      [=](Stream& s, const float* x, float* y, int64_t r, int c) { softmax_split(s, x, y, r, c, scratch->split); },
      rows > kSplitRows ? "enough rows to fill the card with one block each" : "");
  add(
      "05 second read from the L2", Rung::kRung,
      [=](Stream& s, const float* x, float* y, int64_t r, int c) { softmax_window(s, x, y, r, c, scratch->window); },
      cols <= kRegisterCols ? "a block's registers hold the row" : "");
  add("05 the form softmax_rows picks", Rung::kRung,
      [=](Stream& s, const float* x, float* y, int64_t r, int c) { softmax_rows(s, x, y, r, c, scratch); });
  return problem;
}

}  // namespace

int main(int argc, char** argv) {
  Step step;
  step.number = "05";
  step.title = "online softmax";
  step.form = "MxN";
  step.shapes = {{{8192, 1024}}, {{8192, 4096}}, {{4096, 32768}}, {{1024, 151936}}, {{1, 151936}}};
  step.small_shapes = {{{48, 1000}}, {{2, 40000}}};
  step.memory_bound = true;
  step.peer_name = "cuDNN";
  step.device_bytes = [](const Shape& s) { return 8.0 * s[0] * s[1] * copies_of(s); };
  step.build = build;
  return run_step(step, argc, argv);
}
