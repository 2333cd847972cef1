// The table of times for RoPE: what is run, and how far each may be from float64.
#pragma once
#include "07_positional_encoding/rope.cuh"
#include "common/random.hpp"
#include "common/step.hpp"

namespace rope_step {

constexpr double kTheta = 1e6;  // Qwen3

template <class T>
std::vector<T> as(const std::vector<float>& values) {
  std::vector<T> converted(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    if constexpr (std::is_same_v<T, bfloat16>)
      converted[i] = __float2bfloat16(values[i]);
    else
      converted[i] = values[i];
  return converted;
}

struct Rotated {
  std::vector<float> input;       // [tokens, heads, head_dim], each a bfloat16 number
  std::vector<float2> turns;      // [tokens, head_dim / 2]
  DeviceBuffer<float> x;          // [tokens, heads, head_dim]
  DeviceBuffer<bfloat16> x_bf16;  // the same
  DeviceBuffer<float2> table;     // [tokens, head_dim / 2]
  DeviceBuffer<int> positions;    // [tokens]
  std::vector<double> want(bool interleaved, int heads, int d) const {
    std::vector<double> y(input.size());
    for (size_t at = 0; at < input.size(); at += d)
      for (int i = 0; i < d / 2; ++i) {
        const size_t a = interleaved ? at + 2 * i : at + i, b = interleaved ? a + 1 : a + d / 2;
        const float2 turn = turns[at / d / heads * (d / 2) + i];
        y[a] = double(input[a]) * turn.x - double(input[b]) * turn.y;
        y[b] = double(input[b]) * turn.x + double(input[a]) * turn.y;
      }
    return y;
  }
};

inline Problem build_rope(const Shape& shape, uint64_t seed) {
  const int tokens = shape[0], heads = shape[1], d = shape[2];
  if (d % 2 != 0) throw BadInput("--shape " + shape.text() + ": a head needs an even number of dimensions");
  const size_t count = size_t(tokens) * heads * d;
  auto b = std::make_shared<Rotated>();
  b->input = random_normal_with_outliers(count, seed);
  for (float& v : b->input) v = __bfloat162float(__float2bfloat16(v));
  std::vector<int> positions(tokens);
  for (int t = 0; t < tokens; ++t) positions[t] = tokens - 1 - t;
  for (int t = 0; t < tokens; ++t)
    for (int i = 0; i < d / 2; ++i) {
      const double angle = float(positions[t]) * rope_inverse_frequency(i, d, kTheta);
      b->turns.push_back(make_float2(float(std::cos(angle)), float(std::sin(angle))));
    }
  b->x = DeviceBuffer<float>(b->input);
  b->x_bf16 = DeviceBuffer<bfloat16>(as<bfloat16>(b->input));
  b->table = DeviceBuffer<float2>(size_t(tokens) * (d / 2));
  b->positions = DeviceBuffer<int>(positions);
  Stream stream;
  rope_table(stream, b->table.data(), tokens, d, kTheta);
  stream.synchronize();
  Problem problem;
  problem.shape = shape.text();
  problem.flop = 3.0 * double(count);
  problem.bytes = 8.0 * double(count) + 4.0 * tokens * d;
  problem.poison = [b] { b->x.upload(b->input), b->x_bf16.upload(as<bfloat16>(b->input)); };  // works in place
  problem.buffers = b;
  const auto add = [&](const char* name, Rung::Role role, bool interleaved, std::function<void(Stream&)> run) {
    Rung rung;
    rung.name = name;
    rung.role = role;
    rung.run = [=](Stream& s, int) { run(s); };
    rung.check = [=] {
      return compare(b->x.to_host(), b->want(interleaved, heads, d), 2e-5, size_t(d));  // values up to about 50
    };
    problem.rungs.push_back(std::move(rung));
  };
  const int k_heads = heads / 5, q_heads = heads - k_heads;  // the article's 8 and 2, of 10
  const int64_t stride = int64_t(heads) * d;
  const auto all = [=](auto* x) {
    using T = std::remove_pointer_t<decltype(x)>;
    return RopeHeads<T>{x, x + int64_t(q_heads) * d, q_heads, k_heads, d, d, stride, stride};
  };
  add("07 RoPE: q, then k", Rung::kBaseline, false, [=](Stream& s) {
    float* x = b->x.data();
    const auto half_split = RopePairing::kHalfSplit;
    rope_apply(s, x, b->table.data(), b->positions.data(), tokens, q_heads, d, d, stride, half_split);
    if (k_heads)
      rope_apply(s, x + int64_t(q_heads) * d, b->table.data(), b->positions.data(), tokens, k_heads, d, d, stride,
                 half_split);
  });
  add("07 RoPE: q and k in one launch", Rung::kRung, false, [=](Stream& s) {
    rope_apply_qk(s, all(b->x.data()), b->table.data(), b->positions.data(), tokens, RopePairing::kHalfSplit);
  });
  add("07 RoPE: interleaved pairs", Rung::kRung, true, [=](Stream& s) {
    rope_apply_qk(s, all(b->x.data()), b->table.data(), b->positions.data(), tokens, RopePairing::kInterleaved);
  });
  add("07 RoPE: bfloat16", Rung::kRung, false, [=](Stream& s) {
    rope_apply_qk(s, all(b->x_bf16.data()), b->table.data(), b->positions.data(), tokens, RopePairing::kHalfSplit);
  });
  problem.rungs.back().bytes = 4.0 * double(count) + 4.0 * tokens * d;
  problem.rungs.back().check = [=] {
    const std::vector<double> want = b->want(false, heads, d);
    const auto tolerance = [&](size_t i) { return 1.01 * kBfloat16Ulp * std::fabs(want[i]) + 2e-5; };
    return compare(b->x_bf16.to_host(), want, tolerance, size_t(d));
  };
  return problem;
}

}  // namespace rope_step

inline Step rope_rotation_step() {
  Step step;
  step.number = "07";
  step.title = "rotary position embedding";
  step.form = "TxHxD";  // tokens × query and key heads × dimensions of a head
  step.shapes = {{{32768, 10, 128}}, {{1, 10, 128}}};
  step.small_shapes = {{{40, 10, 64}}};
  step.memory_bound = true;
  step.peer_name = "peer";
  step.device_bytes = [](const Shape& s) { return 6.0 * s[0] * s[1] * s[2] + 4.0 * s[0] * s[2]; };
  step.build = rope_step::build_rope;
  return step;
}
