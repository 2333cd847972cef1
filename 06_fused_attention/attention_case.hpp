// 06 · one attention problem with random inputs, for the tests and the program.
#pragma once
#include <algorithm>

#include "06_fused_attention/attention.hpp"
#include "common/random.hpp"

template <class T>
T from_float(float v);
template <>
inline float from_float<float>(float v) {
  return v;
}
template <>
inline bfloat16 from_float<bfloat16>(float v) {
  return __float2bfloat16(v);
}

template <class T>
std::vector<T> converted(const std::vector<float>& values) {
  std::vector<T> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), from_float<T>);
  return result;
}

struct AttentionShape {
  int batch, heads, kv_heads, q_len, kv_len, head_dim;
  bool causal = false;
  int q_start = 0;
};

// Owns the buffers of a problem. Everything is contiguous [batch, heads, length, head_dim], the output poisoned.
template <class T>
struct AttentionCase {
  DeviceBuffer<T> q, k, v, out;
  DeviceBuffer<uint8_t> key_mask;
  Attention<T> problem;

  AttentionCase(const AttentionShape& s, uint64_t seed)
      : AttentionCase(s, random_normal_with_outliers(size_t(s.batch) * s.heads * s.q_len * s.head_dim, seed),
                      random_normal_with_outliers(size_t(s.batch) * s.kv_heads * s.kv_len * s.head_dim, seed + 1),
                      random_normal_with_outliers(size_t(s.batch) * s.kv_heads * s.kv_len * s.head_dim, seed + 2)) {}
  AttentionCase(const AttentionShape& s, const std::vector<float>& q_values, const std::vector<float>& k_values,
                const std::vector<float>& v_values)
      : q(converted<T>(q_values)), k(converted<T>(k_values)), v(converted<T>(v_values)), out(q_values.size()) {
    problem = attention_contiguous(q.data(), k.data(), v.data(), out.data(), s.batch, s.heads, s.kv_heads, s.q_len,
                                   s.kv_len, s.head_dim);
    problem.causal = s.causal;
    problem.q_start = s.q_start;
  }
  // Hides the keys whose byte is 0; [batch, kv_len].
  void hide_keys(const std::vector<uint8_t>& mask) {
    key_mask = DeviceBuffer<uint8_t>(mask);
    problem.key_mask = key_mask.data();
  }
};
