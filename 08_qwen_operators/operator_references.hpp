// 08 · plain references in double of the operators that are no matrix product, with the comparison each of them needs
#pragma once
#include <cmath>
#include <vector>

#include "08_qwen_operators/attention_parts.cuh"
#include "common/random.hpp"
#include "common/verify.hpp"

using Bf16s = std::vector<bfloat16>;

// Two roundings to bfloat16 by definition; a value between two of them may go either way at the first.
inline Check check_rms_norm(const std::vector<float>& x, const Bf16s& weight, const Bf16s& got, int rows, int columns,
                            double eps) {
  std::vector<double> want(x.size());
  for (int r = 0; r < rows; ++r) {
    const float* row = &x[size_t(r) * columns];
    double squares = 0;
    for (int i = 0; i < columns; ++i) squares += double(row[i]) * row[i];
    const double scale = 1 / std::sqrt(squares / columns + eps);
    for (int i = 0; i < columns; ++i) want[size_t(r) * columns + i] = row[i] * scale * to_double(weight[i]);
  }
  return compare(
      got, want, [&](size_t i) { return 2.01 * kBfloat16Ulp * std::fabs(want[i]) + 1e-30; }, size_t(columns));
}

inline Check check_residual_add(const std::vector<float>& x, const Bf16s& delta, const std::vector<float>& got,
                                int columns) {
  std::vector<double> want(x.size());
  for (size_t i = 0; i < x.size(); ++i) want[i] = double(x[i]) + to_double(delta[i]);
  return compare(
      got, want, [&](size_t i) { return kFloatUlp * std::fabs(want[i]) + 1e-30; }, size_t(columns));
}

inline Check check_act_mul(const Bf16s& gate, const Bf16s& up, const Bf16s& got, int columns) {
  std::vector<double> want(gate.size());
  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = to_double(gate[i]);
    want[i] = g / (1 + std::exp(-g)) * to_double(up[i]);
  }
  return compare(
      got, want, [&](size_t i) { return (kBfloat16Ulp + 16 * kFloatUlp) * std::fabs(want[i]) + 1e-30; },
      size_t(columns));
}

// The rotation with the table's own cos and sin: two products and a sum in float, one rounding.
inline Check check_rope(const Bf16s& before, const Bf16s& got, const std::vector<float2>& table, int first_position,
                        int tokens, int heads, int d) {
  std::vector<double> want(before.size()), size(before.size());
  const int half = d / 2;
  for (int t = 0; t < tokens; ++t)
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < half; ++i) {
        const size_t at = (size_t(t) * heads + h) * d + i;
        const float2 turn = table[size_t(first_position + t) * half + i];
        const double a = to_double(before[at]), b = to_double(before[at + half]);
        want[at] = a * turn.x - b * turn.y;
        want[at + half] = b * turn.x + a * turn.y;
        size[at] = size[at + half] = std::fabs(a) + std::fabs(b);
      }
  return compare(
      got, want, [&](size_t i) { return kBfloat16Ulp * std::fabs(want[i]) + 4 * kFloatUlp * size[i] + 1e-30; },
      size_t(d));
}

// cos and sin of the angle that transformers computes: inverse frequency and angle each rounded to float.
inline Check check_angles(const std::vector<float2>& table, int positions, int rotary, double theta) {
  std::vector<float> got;
  std::vector<double> want;
  for (int p = 0; p < positions; ++p)
    for (int i = 0; i < rotary / 2; ++i) {
      const float inverse = 1.f / float(std::pow(theta, double(float(2 * i) / float(rotary))));
      const double angle = float(p) * inverse;
      got.push_back(table[size_t(p) * (rotary / 2) + i].x), want.push_back(std::cos(angle));
      got.push_back(table[size_t(p) * (rotary / 2) + i].y), want.push_back(std::sin(angle));
    }
  // a power that rounds the other way moves the inverse by two float steps, and the angle with it
  return compare(
      got, want, [&](size_t i) { return 4 * kFloatUlp * (1 + double(i / size_t(rotary))); }, size_t(rotary));
}

inline Check check_store(const HeadSplit& split, int capacity, int tokens, const Bf16s& qkv, const Bf16s& k,
                         const Bf16s& v) {
  Bf16s got;
  std::vector<double> want;
  for (int t = 0; t < tokens; ++t)
    for (int h = 0; h < split.kv_heads; ++h)
      for (int i = 0; i < split.head_dim; ++i) {
        const size_t at = (size_t(h) * capacity + capacity - tokens + t) * split.head_dim + i;
        got.push_back(k[at]), want.push_back(to_double(split.k(qkv.data()).head(t, h)[i]));
        got.push_back(v[at]), want.push_back(to_double(split.v(qkv.data()).head(t, h)[i]));
      }
  return compare_exact(got, want, size_t(split.head_dim));
}

// Attention in parts. `p` gives sizes and scale; its pointers are not used.
inline Check check_scores(const AttentionParts& p, const Bf16s& q, const Bf16s& k, const std::vector<float>& got) {
  const int d = p.split.head_dim, group = p.split.heads / p.split.kv_heads;
  std::vector<double> want(got.size()), size(got.size());
  for (size_t item = 0; item < got.size(); ++item) {
    const size_t j = item % p.kv_len, i = item / p.kv_len % p.tokens, h = item / p.kv_len / p.tokens;
    for (int c = 0; c < d; ++c) {
      const double product = to_double(q[(i * p.split.heads + h) * d + c]) *
                             to_double(k[(h / group * p.cache.capacity + j) * d + c]) * double(p.scale);
      want[item] += product, size[item] += std::fabs(product);
    }
  }
  return compare(
      got, want, [&](size_t i) { return dot_tolerance(size[i], d); }, size_t(p.kv_len));
}

// The weights of row `row`, in double.
inline std::vector<double> softmax_in_double(const AttentionParts& p, const std::vector<float>& scores, size_t row) {
  const int seen = std::min(p.kv_len, p.q_start + int(row % p.tokens) + 1);
  std::vector<double> weights(size_t(p.kv_len), 0.0);
  double sum = 0;
  for (int j = 0; j < seen; ++j) sum += weights[j] = std::exp(double(scores[row * p.kv_len + j]));
  for (double& w : weights) w /= sum;
  return weights;
}

inline Check check_softmax(const AttentionParts& p, const std::vector<float>& scores, const std::vector<float>& got) {
  std::vector<double> want;
  for (size_t row = 0; row < size_t(p.split.heads) * p.tokens; ++row) {
    const auto weights = softmax_in_double(p, scores, row);
    want.insert(want.end(), weights.begin(), weights.end());
  }
  const double relative = 6 * std::sqrt(double(p.kv_len)) * kFloatUlp + 16 * kFloatUlp;
  return compare(
      got, want, [&](size_t i) { return relative * want[i] + 1e-30; }, size_t(p.kv_len));
}

// out = weights · v, the weights being any numbers.
inline Check check_values(const AttentionParts& p, const std::vector<float>& weights, const Bf16s& v,
                          const Bf16s& got) {
  const int d = p.split.head_dim, group = p.split.heads / p.split.kv_heads;
  std::vector<double> want(got.size()), size(got.size());
  for (int i = 0; i < p.tokens; ++i)
    for (int h = 0; h < p.split.heads; ++h)
      for (int j = 0; j < p.kv_len; ++j)
        for (int c = 0; c < d; ++c) {
          const double product = double(weights[(size_t(h) * p.tokens + i) * p.kv_len + j]) *
                                 to_double(v[(size_t(h / group) * p.cache.capacity + j) * d + c]);
          const size_t at = (size_t(i) * p.split.heads + h) * d + c;
          want[at] += product, size[at] += std::fabs(product);
        }
  return compare(
      got, want,
      [&](size_t i) {
        return dot_tolerance(size[i], p.kv_len) * (1 + kBfloat16Ulp) + kBfloat16Ulp * std::fabs(want[i]);
      },
      size_t(d));
}
