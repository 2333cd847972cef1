// Exercise 04.1 · float4 and the rest: the answer.
#pragma once
#include "common/launch.hpp"

// [answer]
__global__ void scale_kernel(const float* x,  // [n], at a multiple of 16 bytes
                             float* y,        // [n], likewise
                             float a, int n) {
  const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i + 4 <= n) {  // all four exist
    const float4 v = load_vec<float4>(x + i);
    store_vec(y + i, make_float4(a * v.x, a * v.y, a * v.z, a * v.w));
  } else {
    for (int j = i; j < n; ++j) y[j] = a * x[j];  // one thread at most: the last three or fewer
  }
}
// [/answer]

void scale(Stream& stream, const float* x, float* y, float a, int n) {
  launch(scale_kernel, ceil_div(n, 4 * 128), 128, on(stream), x, y, a, n);
}
