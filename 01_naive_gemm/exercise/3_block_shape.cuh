// Exercise 01.3 · the shape of a block: make exercise01 EXERCISE=3
//
// Adds a bias to every row. With blocks of 32 × 8, a matrix of 8 columns leaves 24 lanes of each warp with nothing to do.
// YOUR TURN: choose width and height of a block of 256 threads from `cols`, so that whole warps work and no load of x
// takes more than 4 sectors. Widths that divide a warp keep rows and warps together.
#pragma once
#include "common/launch.hpp"

inline dim3 block_for([[maybe_unused]] int cols) { return dim3(32, 8); }

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
