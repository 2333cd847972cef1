// Exercise 05.2 · a row of nothing but −∞: the answer.
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
  // [answer]
  const float shift = max == -INFINITY ? 0.f : max;  // −∞ − (−∞) is NaN, −∞ − 0 is not
  for (int c = threadIdx.x; c < cols; c += 32) sum += __expf(x[begin + c] - shift);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  const float scale = sum == 0.f ? 0.f : 1.f / sum;  // 0 · (1 / 0) is NaN; a sum that is NaN stays NaN
  // [/answer]
  for (int c = threadIdx.x; c < cols; c += 32) y[begin + c] = __expf(x[begin + c] - shift) * scale;
}

void softmax_rows(Stream& stream, const float* x, float* y, int rows, int cols) {
  launch(softmax_kernel, rows, 32, on(stream), x, y, cols);
}
