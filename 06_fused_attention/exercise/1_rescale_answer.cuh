// Exercise 06.1 · rescaling: the answer.
#pragma once
#include "common/launch.hpp"

constexpr int kDim = 32;

// One warp for one query: lane d has element d of the query and of the result.
__global__ void attend_kernel(const float* q,  // [queries, kDim], scaled
                              const float* k,  // [keys, kDim]
                              const float* v,  // [keys, kDim]
                              float* out,      // [queries, kDim]
                              int keys) {
  const int d = threadIdx.x, i = blockIdx.x;
  const float mine = q[i * kDim + d];
  float max = -INFINITY, sum = 0.f, value = 0.f;
  for (int j = 0; j < keys; ++j) {
    float score = mine * k[size_t(j) * kDim + d];
    for (int b = 16; b > 0; b /= 2) score += __shfl_xor_sync(0xffffffffu, score, b);
    // [answer]
    const float higher = fmaxf(max, score);
    const float old = __expf(max - higher);  // 1 unless this score is the largest so far
    const float p = __expf(score - higher);
    sum = sum * old + p;
    value = value * old + p * v[size_t(j) * kDim + d];
    max = higher;
    // [/answer]
  }
  out[i * kDim + d] = value / sum;
}

void attend(Stream& stream, const float* q, const float* k, const float* v, float* out, int queries, int keys) {
  launch(attend_kernel, queries, kDim, on(stream), q, k, v, out, keys);
}
