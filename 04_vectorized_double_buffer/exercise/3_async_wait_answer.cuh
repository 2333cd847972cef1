// Exercise 04.3 · where the wait stands: the answer.
#pragma once
#include "common/launch.hpp"

constexpr int kTile = 128;

// Starts this thread's share of the copy of the tile that begins at x[j0].
__device__ __forceinline__ void start_copy(float* tile, const float* x, int j0, int n) {
  const int j = j0 + threadIdx.x;
  cp_async_4(tile + threadIdx.x, x + (j < n ? j : 0), j < n);
  cp_async_commit();
}

__global__ void distances_kernel(const float* x,  // [n]
                                 float* out,      // [n]
                                 int n) {
  __shared__ float tile[2][kTile];
  const int i = blockIdx.x * kTile + threadIdx.x;
  const float mine = i < n ? x[i] : 0.f;
  float sum = 0.f;
  start_copy(tile[0], x, 0, n);
  // [answer]
  for (int j0 = 0, b = 0; j0 < n; j0 += kTile, b ^= 1) {
    cp_async_wait<0>();  // what this thread copies of this tile has arrived; the next is not yet under way
    __syncthreads();     // … and so has what all others copy, and all have read the other tile
    if (j0 + kTile < n) start_copy(tile[b ^ 1], x, j0 + kTile, n);
    const int count = min(kTile, n - j0);
    for (int j = 0; j < count; ++j) sum += fabsf(mine - tile[b][j]);
  }
  // [/answer]
  if (i < n) out[i] = sum;
}

void distances(Stream& stream, const float* x, float* out, int n) {
  launch(distances_kernel, ceil_div(n, kTile), kTile, on(stream), x, out, n);
}
