// 06 · the reference: the formula, row by row, in double; and how far a float kernel may be from it
#pragma once
#include <vector>

#include "06_fused_attention/attention.hpp"
#include "common/launch.hpp"
#include "common/verify.hpp"

__device__ inline double attention_value(float v) { return v; }
__device__ inline double attention_value(bfloat16 v) { return __bfloat162float(v); }

constexpr int kReferenceThreads = 64;

// One block per query row and head. want and magnitude are contiguous [batch, heads, q_len, head_dim]: the result, and
// Σ softmax · |v|. score_size [batch, heads, q_len] is the largest scale · Σ|q|·|k| of a visible key.
template <class T>
__global__ void attention_reference_kernel(Attention<T> p, double* want, double* magnitude, double* score_size) {
  __shared__ double shared[3][kReferenceThreads], weight[kReferenceThreads];
  const int row = blockIdx.y, batch = blockIdx.x / p.heads, head = blockIdx.x % p.heads;
  const int kv_head = head / (p.heads / p.kv_heads), D = p.head_dim, t = threadIdx.x;
  const T* q = p.q + batch * p.q_batch_stride + head * p.q_head_stride + row * p.q_row_stride;
  const T* k = p.k + batch * p.kv_batch_stride + kv_head * p.kv_head_stride;
  const T* v = p.v + batch * p.kv_batch_stride + kv_head * p.kv_head_stride;
  const auto visible = [&](int key) {
    return key < p.keys_seen(row) && (!p.key_mask || p.key_mask[int64_t(batch) * p.kv_len + key] != 0);
  };
  const auto score = [&](int key, double* size) {
    double s = 0, a = 0;
    for (int d = 0; d < D; ++d) {
      const double product = attention_value(q[d]) * attention_value(k[key * p.kv_row_stride + d]);
      s += product;
      a += fabs(product);
    }
    *size = a * p.scale;
    return s * p.scale;
  };

  double top = -INFINITY, largest = 0, ignored;
  for (int key = t; key < p.kv_len; key += kReferenceThreads)
    if (visible(key)) {
      double size;
      top = fmax(top, score(key, &size));
      largest = fmax(largest, size);
    }
  shared[0][t] = top;
  shared[1][t] = largest;
  __syncthreads();
  for (int i = 0; i < kReferenceThreads; ++i) {
    top = fmax(top, shared[0][i]);
    largest = fmax(largest, shared[1][i]);
  }

  double sum = 0, out[4] = {}, out_size[4] = {};  // columns t, t + 64, t + 128, t + 192
  for (int key0 = 0; key0 < p.kv_len; key0 += kReferenceThreads) {
    const int key = key0 + t;
    __syncthreads();  // all have used the weights before
    weight[t] = key < p.kv_len && visible(key) ? exp(score(key, &ignored) - top) : 0.0;
    __syncthreads();
    for (int i = 0; i < kReferenceThreads && key0 + i < p.kv_len; ++i) {
      if (weight[i] == 0.0) continue;
      sum += weight[i];
      for (int j = 0, d = t; d < D; ++j, d += kReferenceThreads) {
        const double value = attention_value(v[(key0 + i) * p.kv_row_stride + d]);
        out[j] += weight[i] * value;
        out_size[j] += weight[i] * fabs(value);
      }
    }
  }
  const int64_t to = int64_t(blockIdx.x) * p.q_len + row;
  for (int j = 0, d = t; d < D; ++j, d += kReferenceThreads) {
    want[to * D + d] = sum > 0 ? out[j] / sum : 0;
    magnitude[to * D + d] = sum > 0 ? out_size[j] / sum : 0;
  }
  if (t == 0) score_size[to] = largest;
}

// What a kernel rounds to bfloat16 on its way, beyond the float sums.
enum AttentionRounding { kFloatThroughout = 0, kOutputBfloat16 = 1, kWeightsAndOutputBfloat16 = 2 };

struct AttentionReference {
  std::vector<double> want, magnitude, score_size;  // as above
  int kv_len, head_dim;
  // Largest |error| allowed for element i. A score is off by at most δ = (6√D + 4)·2^-24 · its size (the dot product, and
  // its scaling into the exponent), a weight by the factor e^δ, a quotient of sums by twice that; exponent instruction and
  // sum add 2^-20 and 6√n·2^-24. A rounding to bfloat16 adds 2^-9 of the sum of |weights · values|.
  double tolerance(size_t i, AttentionRounding rounding) const {
    const double score = (6 * std::sqrt(double(head_dim)) + 4) * kFloatUlp * score_size[i / size_t(head_dim)];
    const double relative = 2 * std::expm1(score) + 6 * std::sqrt(double(kv_len)) * kFloatUlp + 0x1p-20;
    return magnitude[i] * (relative + rounding * kBfloat16Ulp) + 1e-30;
  }
};

template <class T>
AttentionReference attention_reference(const Attention<T>& p) {
  check_attention(p);
  if (p.q_len > 65535) throw BadInput(fmt::format("attention_reference: {} queries: expected at most 65535", p.q_len));
  const size_t rows = size_t(p.batch) * size_t(p.heads) * size_t(p.q_len);
  DeviceBuffer<double> want(rows * size_t(p.head_dim)), magnitude(rows * size_t(p.head_dim)), size(rows);
  Stream stream;
  launch(attention_reference_kernel<T>, dim3(unsigned(p.batch * p.heads), unsigned(p.q_len)), dim3(kReferenceThreads),
         on(stream), p, want.data(), magnitude.data(), size.data());
  stream.synchronize();
  return {want.to_host(), magnitude.to_host(), size.to_host(), p.kv_len, p.head_dim};
}

// Compares `out`, contiguous [batch, heads, q_len, head_dim]; coordinates in the report are (row over all heads, column).
template <class T>
Check compare_attention(const std::vector<T>& out, const AttentionReference& reference, AttentionRounding rounding) {
  return compare(
      out, reference.want, [&](size_t i) { return reference.tolerance(i, rounding); }, size_t(reference.head_dim));
}
