// Exercise 05.2 · a row of nothing but −∞: make exercise05 EXERCISE=2
//
// A query that may attend to no key has a row of −∞. This tutorial says that its probabilities are 0; here they are NaN.
// YOUR TURN: two of the lines below go wrong for such a row. A row with a NaN must stay NaN: an error must not vanish.
#pragma once
#include "common/launch.hpp"

// One warp a row.
__global__ void softmax_kernel(const float* x,  // [rows, cols]
                               float* y,        // [rows, cols]
                               int cols) {
  const size_t begin = size_t(blockIdx.x) * cols;
  float max = -INFINITY, sum = 0.f;
  for (int c = threadIdx.x; c < cols; c += 32) max = fmaxf(max, x[begin + c]);
  for (int d = 16; d > 0; d /= 2) max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, d));
  const float shift = max;
  for (int c = threadIdx.x; c < cols; c += 32) sum += __expf(x[begin + c] - shift);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  const float scale = 1.f / sum;
  for (int c = threadIdx.x; c < cols; c += 32) y[begin + c] = __expf(x[begin + c] - shift) * scale;
}

void softmax_rows(Stream& stream, const float* x, float* y, int rows, int cols) {
  launch(softmax_kernel, rows, 32, on(stream), x, y, cols);
}
