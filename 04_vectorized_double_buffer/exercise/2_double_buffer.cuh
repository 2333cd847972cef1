// Exercise 04.2 · two buffers: make exercise04 EXERCISE=2
//
// out[i] = Σ |x[i] − x[j]| through one tile in shared memory, which takes two barriers a tile: copy and arithmetic take
// turns.
// YOUR TURN: with two tiles the next one is copied while this one is read. One barrier a tile is enough then; where?
#pragma once
#include "common/launch.hpp"

constexpr int kTile = 128;

__global__ void distances_kernel(const float* x,  // [n]
                                 float* out,      // [n]
                                 int n) {
  const int t = threadIdx.x, i = blockIdx.x * kTile + t;
  const float mine = i < n ? x[i] : 0.f;
  float sum = 0.f;
  __shared__ float tile[kTile];
  for (int j0 = 0; j0 < n; j0 += kTile) {
    tile[t] = j0 + t < n ? x[j0 + t] : 0.f;
    __syncthreads();
    const int count = min(kTile, n - j0);
    for (int j = 0; j < count; ++j) sum += fabsf(mine - tile[j]);
    __syncthreads();
  }
  if (i < n) out[i] = sum;
}

void distances(Stream& stream, const float* x, float* out, int n) {
  launch(distances_kernel, ceil_div(n, kTile), kTile, on(stream), x, out, n);
}
