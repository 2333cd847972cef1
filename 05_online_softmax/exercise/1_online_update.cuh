// Exercise 05.1 · one pass: make exercise05 EXERCISE=1
//
// Each lane goes over its values once and keeps a maximum and a sum. When the maximum grows, the old sum is relative to the
// wrong one.
// YOUR TURN: take in x. By what does the old sum have to be multiplied, so that it is relative to the new maximum?
#pragma once
#include "common/launch.hpp"

// The values seen so far: their maximum, and the sum of exp(value − maximum).
struct Online {
  float max, sum;
};
__device__ __forceinline__ Online add(Online seen, float x) {
  const float max = fmaxf(seen.max, x);
  return {max, seen.sum + __expf(x - max)};
}

// log Σ exp(x) of each row, one warp a row; cols is at least 32.
__global__ void log_sum_exp_kernel(const float* x,  // [rows, cols]
                                   float* out,      // [rows]
                                   int cols) {
  const float* row = x + size_t(blockIdx.x) * cols;
  Online seen{row[threadIdx.x], 1.f};
  for (int c = threadIdx.x + 32; c < cols; c += 32) seen = add(seen, row[c]);
  float max = seen.max;
  for (int d = 16; d > 0; d /= 2) max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, d));
  float sum = seen.sum * __expf(seen.max - max);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (threadIdx.x == 0) out[blockIdx.x] = max + __logf(sum);
}

void log_sum_exp(Stream& stream, const float* x, float* out, int rows, int cols) {
  launch(log_sum_exp_kernel, rows, 32, on(stream), x, out, cols);
}
