// The table of times for the sinusoidal rungs: what is run, and how far each may be from float64.
#pragma once
#include "07_positional_encoding/sinusoidal.cuh"
#include "common/step.hpp"

namespace sinusoidal_step {

struct Table {
  DeviceBuffer<float> table, computed;
  SinusoidalFrequencies frequencies;
  std::vector<double> want, angle;  // [positions, d]
};

inline Problem build_table(const Shape& shape, uint64_t) {
  const int positions = shape[0], d = shape[1];
  const size_t count = size_t(positions) * d;
  auto b = std::make_shared<Table>(
      Table{DeviceBuffer<float>(count), DeviceBuffer<float>(count), SinusoidalFrequencies(d), {}, {}});
  std::vector<double> frequencies;
  for (int c = 0; c < d; ++c) frequencies.push_back(std::pow(kSinusoidalBase, -2.0 * (c / 2) / d));
  b->angle.reserve(count), b->want.reserve(count);
  for (int p = 0; p < positions; ++p)
    for (int c = 0; c < d; ++c) {
      b->angle.push_back(p * frequencies[c]);
      b->want.push_back(c % 2 ? std::cos(b->angle.back()) : std::sin(b->angle.back()));
    }
  Stream stream;
  sinusoidal_split(stream, b->computed.data(), b->frequencies, positions, d);
  stream.synchronize();
  Problem problem;
  problem.shape = shape.text();
  problem.flop = 2.0 * double(count);  // the product and the function
  problem.bytes = 4.0 * double(count);
  problem.poison = [b] { b->table.poison(); };
  problem.buffers = b;
  // `roundings`: how many of relative size 2^-24 the angle has gone through
  const auto add = [&](const char* name, Rung::Role role, double roundings, std::function<void(Stream&)> run) {
    Rung rung;
    rung.name = name;
    rung.role = role;
    rung.run = [=](Stream& s, int) { run(s); };
    rung.check = [=] {
      const auto tolerance = [&](size_t i) { return roundings * kFloatUlp * b->angle[i] + 1.5e-6; };
      return compare(b->table.to_host(), b->want, tolerance, size_t(d));
    };
    problem.rungs.push_back(std::move(rung));
  };
  float* table = b->table.data();
  // powf: 4 units in the last place = 8 roundings, its exponent ln(10000) more, the quotient 1
  add("07 powf for every value", Rung::kBaseline, 20, [=](Stream& s) { sinusoidal_pow(s, table, positions, d); });
  add("07 frequencies hoisted, fp32 angle", Rung::kRung, 2.1,
      [=](Stream& s) { sinusoidal_hoisted(s, table, b->frequencies, positions, d); });
  add("07 + two-float frequencies, exact", Rung::kRung, 0,
      [=](Stream& s) { sinusoidal_split(s, table, b->frequencies, positions, d); });
  add("07 precomputed table, copied", Rung::kRung, 0,
      [=](Stream& s) { sinusoidal_precomputed(s, table, b->computed.data(), positions, d); });
  problem.rungs.back().bytes = 8.0 * double(count);
  return problem;
}

}  // namespace sinusoidal_step

inline Step sinusoidal_table_step() {
  Step step;
  step.number = "07";
  step.title = "positional encoding";
  step.form = "PxD";  // positions × width
  step.shapes = {{{32768, 1024}}};
  step.small_shapes = {{{300, 96}}};
  step.memory_bound = true;
  step.peer_name = "peer";
  step.device_bytes = [](const Shape& s) { return 8.0 * s[0] * s[1]; };
  step.build = sinusoidal_step::build_table;
  return step;
}
