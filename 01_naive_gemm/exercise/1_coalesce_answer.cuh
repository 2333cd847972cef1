// Exercise 01.1 · coalescing: the answer.
#pragma once
#include "common/launch.hpp"

// [answer]
__global__ void scale_rows_kernel(const float* x,  // [rows, cols]
                                  const float* s,  // [rows]
                                  float* y,        // [rows, cols]
                                  int rows, int cols) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;  // x, which runs fastest in a warp, is the column
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || col >= cols) return;
  y[size_t(row) * cols + col] = s[row] * x[size_t(row) * cols + col];
}

void scale_rows(Stream& stream, const float* x, const float* s, float* y, int rows, int cols) {
  launch(scale_rows_kernel, dim3(ceil_div(cols, 32), ceil_div(rows, 8)), dim3(32, 8), on(stream), x, s, y, rows, cols);
}
// [/answer]
