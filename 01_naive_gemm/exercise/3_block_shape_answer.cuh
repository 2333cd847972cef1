// Exercise 01.3 · the shape of a block: the answer.
#pragma once
#include "common/launch.hpp"

// [answer]
// The narrowest power of two that covers a row, at most a warp: 8 columns make it 8 × 32, and a warp four whole rows.
inline dim3 block_for(int cols) {
  int width = 1;
  while (width < cols && width < 32) width *= 2;
  return dim3(width, 256 / width);
}
// [/answer]

__global__ void add_bias_kernel(const float* x,     // [rows, cols]
                                const float* bias,  // [cols]
                                float* y,           // [rows, cols]
                                int rows, int cols) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < rows && col < cols) y[size_t(row) * cols + col] = x[size_t(row) * cols + col] + bias[col];
}

void add_bias(Stream& stream, const float* x, const float* bias, float* y, int rows, int cols) {
  const dim3 block = block_for(cols);
  const dim3 grid(ceil_div(unsigned(cols), block.x), ceil_div(unsigned(rows), block.y));
  launch(add_bias_kernel, grid, block, on(stream), x, bias, y, rows, cols);
}
