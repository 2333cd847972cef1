// Exercise 06.1 · rescaling: make exercise06 EXERCISE=1
//
// The scores of a query arrive one at a time and are never stored: the sum and the weighted values are kept relative to the
// largest score so far.
// YOUR TURN: one of the two is forgotten when a larger score comes.
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
    const float higher = fmaxf(max, score);
    const float old = __expf(max - higher);
    const float p = __expf(score - higher);
    sum = sum * old + p;
    value = value + p * v[size_t(j) * kDim + d];
    max = higher;
  }
  out[i * kDim + d] = value / sum;
}

void attend(Stream& stream, const float* q, const float* k, const float* v, float* out, int queries, int keys) {
  launch(attend_kernel, queries, kDim, on(stream), q, k, v, out, keys);
}
