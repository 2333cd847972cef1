// Exercise 04.1 · float4 and the rest: make exercise04 EXERCISE=1
//
// A thread owns four neighbours and moves them one by one: 8 requests, and the lanes of each lie 16 bytes apart.
// YOUR TURN: move the four as one float4, with load_vec and store_vec (common/ptx.hpp). n need not be a multiple of 4.
#pragma once
#include "common/launch.hpp"

__global__ void scale_kernel(const float* x,  // [n], at a multiple of 16 bytes
                             float* y,        // [n], likewise
                             float a, int n) {
  const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  for (int j = 0; j < 4; ++j)
    if (i + j < n) y[i + j] = a * x[i + j];
}

void scale(Stream& stream, const float* x, float* y, float a, int n) {
  launch(scale_kernel, ceil_div(n, 4 * 128), 128, on(stream), x, y, a, n);
}
