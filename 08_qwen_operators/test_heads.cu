// The operators that look at heads: split and concatenation, QK-norm, RoPE, KV store, and attention in parts.
#include "08_qwen_operators/attention_parts.cuh"
#include "08_qwen_operators/test_linear.hpp"

namespace {

// (cos, sin) of position · theta^(-2i/rotary), in double.
std::vector<float2> angle_table(int positions, int rotary, double theta) {
  std::vector<float2> table(size_t(positions) * (rotary / 2));
  for (int p = 0; p < positions; ++p)
    for (int i = 0; i < rotary / 2; ++i) {
      const double angle = p * std::pow(theta, -2.0 * i / rotary);
      table[size_t(p) * (rotary / 2) + i] = make_float2(float(std::cos(angle)), float(std::sin(angle)));
    }
  return table;
}

struct Case {
  int tokens, heads, kv_heads, head_dim, rotary, capacity;
  bool norm;
};

// One head in double: norm with its two roundings, then the rotation.
std::vector<double> head_in_double(const bfloat16* x, int d, const std::vector<bfloat16>* weight, double eps,
                                   const float2* angles, int rotary) {
  std::vector<double> v(d), y(d);
  double squares = 0;
  for (int i = 0; i < d; ++i) v[i] = to_double(x[i]), squares += v[i] * v[i];
  if (weight)
    for (int i = 0; i < d; ++i) {
      const float scaled = __bfloat162float(__float2bfloat16(float(v[i] / std::sqrt(squares / d + eps))));
      v[i] = to_double(__float2bfloat16(scaled * __bfloat162float((*weight)[i])));
    }
  const int half = rotary / 2;
  for (int i = 0; i < d; ++i) {
    y[i] = v[i];
    if (angles && i < half) y[i] = v[i] * angles[i].x - v[i + half] * angles[i].y;
    if (angles && i >= half && i < rotary) y[i] = v[i] * angles[i - half].x + v[i - half] * angles[i - half].y;
  }
  return y;
}

// A norm value may be rounded either way; then the rotation adds two of them.
bool near(bfloat16 got, double want, double size, bool norm) {
  return std::fabs(to_double(got) - want) <=
         kBfloat16Ulp * std::fabs(want) + (norm ? 4 * kBfloat16Ulp : 1e-6) * size + 1e-30;
}

void check_heads(const Case& c, const std::vector<int>& positions) {
  const HeadSplit split{c.heads, c.kv_heads, c.head_dim};
  const int d = c.head_dim;
  const auto qkv = random_bf16(size_t(c.tokens) * split.row(), 1), q_norm = random_bf16(d, 2),
             k_norm = random_bf16(d, 3);
  const auto table = angle_table(c.capacity, c.rotary, 1e6);
  const size_t cache_size = size_t(c.kv_heads) * c.capacity * d;
  const std::vector<bfloat16> untouched(cache_size, __float2bfloat16(77.f));
  DeviceBuffer<bfloat16> dqkv(qkv), dqn(q_norm), dkn(k_norm), q(size_t(c.tokens) * c.heads * d), k(untouched),
      v(untouched);
  DeviceBuffer<float2> dt(table);
  DeviceBuffer<int> at(positions);
  Stream stream;
  qk_norm_rope_store(stream,
                     {dqkv.data(),
                      c.norm ? dqn.data() : nullptr,
                      c.norm ? dkn.data() : nullptr,
                      dt.data(),
                      at.data(),
                      q.data(),
                      {k.data(), v.data(), c.capacity},
                      split,
                      c.rotary,
                      1e-6f},
                     c.tokens);
  stream.synchronize();
  const auto got_q = q.to_host(), got_k = k.to_host(), got_v = v.to_host();
  std::vector<bool> written(size_t(c.capacity), false);
  size_t wrong = 0;
  for (int t = 0; t < c.tokens; ++t) {
    const float2* angles = &table[size_t(positions[t]) * (c.rotary / 2)];
    written[size_t(positions[t])] = true;
    for (int h = 0; h < c.heads; ++h) {
      const auto want =
          head_in_double(split.q(qkv.data()).head(t, h), d, c.norm ? &q_norm : nullptr, 1e-6, angles, c.rotary);
      double size = 0;
      for (double w : want) size = std::max(size, std::fabs(w));
      for (int i = 0; i < d; ++i) wrong += !near(got_q[(size_t(t) * c.heads + h) * d + i], want[i], size, c.norm);
    }
    for (int h = 0; h < c.kv_heads; ++h) {
      const auto want =
          head_in_double(split.k(qkv.data()).head(t, h), d, c.norm ? &k_norm : nullptr, 1e-6, angles, c.rotary);
      double size = 0;
      for (double w : want) size = std::max(size, std::fabs(w));
      const size_t to = (size_t(h) * c.capacity + positions[t]) * d;
      for (int i = 0; i < d; ++i) {
        wrong += !near(got_k[to + i], want[i], size, c.norm);
        wrong += to_double(got_v[to + i]) != to_double(split.v(qkv.data()).head(t, h)[i]);
      }
    }
  }
  INFO(c.tokens << " tokens, heads " << c.heads << "/" << c.kv_heads << " × " << d << ", rotary " << c.rotary);
  REQUIRE(wrong == 0);
  for (int h = 0; h < c.kv_heads; ++h)  // other positions stay as they were
    for (int p = 0; p < c.capacity; ++p)
      if (!written[size_t(p)])
        for (int i = 0; i < d; ++i) {
          const size_t place = (size_t(h) * c.capacity + p) * d + i;
          if (to_double(got_k[place]) != 77 || to_double(got_v[place]) != 77) FAIL("position " << p << " was written");
        }
}

}  // namespace

TEST_CASE("08 qk_norm_rope_store: heads, GQA groups, partial rotation, with and without norm") {
  check_heads({1, 8, 2, 128, 128, 5, false}, {4});
  check_heads({1, 8, 2, 128, 128, 5, true}, {0});
  check_heads({3, 14, 2, 64, 64, 9, true}, {6, 7, 8});
  check_heads({5, 6, 2, 16, 8, 7, true}, {1, 2, 3, 4, 5});
  check_heads({2, 1, 1, 2, 2, 2, false}, {0, 1});
  check_heads({2, 3, 3, 34, 10, 4, true}, {3, 0});
  check_heads({17, 4, 2, 256, 64, 20, true}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 19});
}
TEST_CASE("08 qk_norm_rope_store: a head of zeros gives zeros, and eps stands inside the root") {
  const HeadSplit split{1, 1, 32};
  std::vector<bfloat16> qkv(split.row(), __float2bfloat16(0.f));
  for (int i = 32; i < 64; ++i) qkv[i] = __float2bfloat16(0.03125f);  // k: mean square 2^-10 = eps, the factor 2^4.5
  DeviceBuffer<bfloat16> d(qkv), ones(std::vector<bfloat16>(32, __float2bfloat16(1.f))), q(32), k(32), v(32);
  DeviceBuffer<int> at(std::vector<int>{0});
  Stream stream;
  qk_norm_rope_store(
      stream,
      {d.data(), ones.data(), ones.data(), nullptr, at.data(), q.data(), {k.data(), v.data(), 1}, split, 0, 0x1p-10f},
      1);
  stream.synchronize();
  for (bfloat16 value : q.to_host()) REQUIRE(to_double(value) == 0);
  for (bfloat16 value : k.to_host()) REQUIRE(std::fabs(to_double(value) - std::sqrt(0.5)) <= kBfloat16Ulp);
}
TEST_CASE("08 qk_norm_rope_store: position 40 959") { check_heads({1, 2, 1, 8, 8, 40960, false}, {40959}); }
TEST_CASE("08 qk_norm_rope_store: a rotary that cannot be is refused") {
  Stream stream;
  QkNormRopeStore p{};
  float2 angle{};
  p.table = &angle;
  p.split = {1, 1, 8};
  p.rotary = 3;
  REQUIRE_THROWS_AS(qk_norm_rope_store(stream, p, 1), BadInput);
  p.rotary = 10;
  REQUIRE_THROWS_AS(qk_norm_rope_store(stream, p, 1), BadInput);
}
TEST_CASE("08 kv_cache_store: K and V unchanged at the token's position") {
  const HeadSplit split{6, 2, 10};
  const int tokens = 3, capacity = 8;
  const auto qkv = random_bf16(size_t(tokens) * split.row(), 1);
  const std::vector<int> positions{7, 0, 3};
  DeviceBuffer<bfloat16> d(qkv), k(2 * 8 * 10), v(2 * 8 * 10);
  DeviceBuffer<int> at(positions);
  Stream stream;
  kv_cache_store(stream, d.data(), at.data(), {k.data(), v.data(), capacity}, split, tokens);
  stream.synchronize();
  const auto got_k = k.to_host(), got_v = v.to_host();
  for (int t = 0; t < tokens; ++t)
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 10; ++i) {
        const size_t place = (size_t(h) * capacity + positions[t]) * 10 + i;
        REQUIRE(to_double(got_k[place]) == to_double(split.k(qkv.data()).head(t, h)[i]));
        REQUIRE(to_double(got_v[place]) == to_double(split.v(qkv.data()).head(t, h)[i]));
      }
}
TEST_CASE("08 split and concatenation of heads are addresses") {
  const HeadSplit split{3, 2, 4};  // rows of 28: q 0–11, k 12–19, v 20–27
  std::vector<bfloat16> qkv(2 * 28);
  for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = __float2bfloat16(float(i));
  REQUIRE(split.row() == 28);
  REQUIRE(to_double(split.q(qkv.data()).head(1, 2)[3]) == 28 + 11);
  REQUIRE(to_double(split.k(qkv.data()).head(1, 1)[0]) == 28 + 16);
  REQUIRE(to_double(split.v(qkv.data()).head(0, 1)[3]) == 27);
  // concatenation: the output [token, head, i] of attention is the row [token, head · head_dim + i] that o_proj reads
  const HeadView out{qkv.data(), 12, 4};
  for (int h = 0; h < 3; ++h)
    for (int i = 0; i < 4; ++i) REQUIRE(out.head(1, h) + i == qkv.data() + 12 + h * 4 + i);
}
TEST_CASE("08 attention in parts: scores, causal softmax, values, against double") {
  struct Shape {
    int tokens, kv_len, q_start, heads, kv_heads, head_dim;
  };
  for (const Shape& s : std::vector<Shape>{{1, 1, 0, 1, 1, 1},
                                           {1, 65, 64, 8, 2, 16},
                                           {5, 7, 2, 6, 2, 33},
                                           {17, 17, 0, 14, 2, 8},
                                           {2, 31, 3, 4, 4, 128}}) {
    const HeadSplit split{s.heads, s.kv_heads, s.head_dim};
    const int capacity = s.kv_len + 3, d = s.head_dim;
    const auto q = random_bf16(size_t(s.tokens) * s.heads * d, 1),
               k = random_bf16(size_t(s.kv_heads) * capacity * d, 2),
               v = random_bf16(size_t(s.kv_heads) * capacity * d, 3);
    DeviceBuffer<bfloat16> dq(q), dk(k), dv(v), out(q.size());
    DeviceBuffer<float> scores(size_t(s.heads) * s.tokens * s.kv_len);
    const float scale = 1.f / std::sqrt(float(d));
    const AttentionParts p{
        dq.data(), {dk.data(), dv.data(), capacity}, scores.data(), out.data(), split, s.tokens, s.kv_len, s.q_start,
        scale};
    Stream stream;
    qk_score(stream, p);
    stream.synchronize();
    const auto got_scores = scores.to_host();
    causal_mask_softmax(stream, p);
    stream.synchronize();
    const auto got_weights = scores.to_host();
    pv_matmul(stream, p);
    stream.synchronize();
    std::vector<double> want_scores(got_scores.size()), want_weights(got_scores.size()), want(q.size(), 0.0);
    for (int h = 0; h < s.heads; ++h)
      for (int i = 0; i < s.tokens; ++i) {
        const int group = h / (s.heads / s.kv_heads), seen = std::min(s.kv_len, s.q_start + i + 1);
        const size_t row = (size_t(h) * s.tokens + i) * s.kv_len, q_row = (size_t(i) * s.heads + h) * d;
        double total = 0;
        for (int j = 0; j < s.kv_len; ++j) {
          for (int c = 0; c < d; ++c)
            want_scores[row + j] +=
                to_double(q[q_row + c]) * to_double(k[(size_t(group) * capacity + j) * d + c]) * scale;
          if (j < seen) total += std::exp(want_scores[row + j]);
        }
        for (int j = 0; j < seen; ++j) {
          want_weights[row + j] = std::exp(want_scores[row + j]) / total;
          for (int c = 0; c < d; ++c)
            want[q_row + c] += want_weights[row + j] * to_double(v[(size_t(group) * capacity + j) * d + c]);
        }
      }
    INFO(s.tokens << " tokens, " << s.kv_len << " keys");
    REQUIRE(compare(got_scores, want_scores, dot_tolerance(double(scale) * d, d), s.kv_len).ok);
    REQUIRE(compare(got_weights, want_weights, 64 * kFloatUlp, s.kv_len).ok);
    REQUIRE(compare(
                out.to_host(), want, [&](size_t i) { return kBfloat16Ulp * std::fabs(want[i]) + 1e-4; }, d)
                .ok);
  }
}
