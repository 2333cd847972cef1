// Exercise 01.1 · coalescing: make exercise01 EXERCISE=1
//
// Each row of x has a factor of its own. The result is right, but a warp walks down a column: 32 sectors for 32 floats.
// YOUR TURN: make x the column, so that a load or store of a warp takes 4 sectors. The grid has to follow.
#pragma once
#include "common/launch.hpp"

__global__ void scale_rows_kernel(const float* x,  // [rows, cols]
                                  const float* s,  // [rows]
                                  float* y,        // [rows, cols]
                                  int rows, int cols) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int col = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || col >= cols) return;
  y[size_t(row) * cols + col] = s[row] * x[size_t(row) * cols + col];
}

void scale_rows(Stream& stream, const float* x, const float* s, float* y, int rows, int cols) {
  launch(scale_rows_kernel, dim3(ceil_div(rows, 32), ceil_div(cols, 8)), dim3(32, 8), on(stream), x, s, y, rows, cols);
}
