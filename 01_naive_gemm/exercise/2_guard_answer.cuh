// Exercise 01.2 · the guard: the answer.
#pragma once
#include "common/launch.hpp"

// [answer]
__global__ void outer_product_kernel(const float* u,  // [rows]
                                     const float* v,  // [cols]
                                     float* y,        // [rows, cols]
                                     int rows, int cols) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < rows && col < cols) y[size_t(row) * cols + col] = u[row] * v[col];
}
// [/answer]

void outer_product(Stream& stream, const float* u, const float* v, float* y, int rows, int cols) {
  launch(outer_product_kernel, dim3(ceil_div(cols, 16), ceil_div(rows, 16)), dim3(16, 16), on(stream), u, v, y, rows,
         cols);
}
