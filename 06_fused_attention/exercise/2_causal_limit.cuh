// Exercise 06.2 · the causal limit: make exercise06 EXERCISE=2
//
// The keys are a cache: those of earlier calls, then one for each query of this call. A query sees its own key and all
// before it.
// YOUR TURN: how many keys does query i see? The others must not even be read: that is half the work of a long prompt.
#pragma once
#include "common/launch.hpp"

constexpr int kDim = 32;

// All scores are equal here, so that attention is the mean of the visible values. One warp for one query.
__global__ void causal_mean_kernel(const float* v,  // [keys, kDim]
                                   float* out,      // [queries, kDim]
                                   [[maybe_unused]] int queries, int keys) {
  const int d = threadIdx.x, i = blockIdx.x;
  const int limit = keys;
  float sum = 0.f;
  for (int j = 0; j < limit; ++j) sum += v[size_t(j) * kDim + d];
  out[i * kDim + d] = sum / float(limit);
}

void causal_mean(Stream& stream, const float* v, float* out, int queries, int keys) {
  launch(causal_mean_kernel, queries, kDim, on(stream), v, out, queries, keys);
}
