// Exercise 01.2 · the guard: make exercise01 EXERCISE=2
//
// y[row][col] = u[row] · v[col]. Blocks are 16 × 16, and the matrix need not be a multiple of that.
// YOUR TURN: which threads have nothing to do? One of the two limits alone lets a thread write into the row of another.
#pragma once
#include "common/launch.hpp"

__global__ void outer_product_kernel(const float* u,  // [rows]
                                     const float* v,  // [cols]
                                     float* y,        // [rows, cols]
                                     [[maybe_unused]] int rows, int cols) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  y[size_t(row) * cols + col] = u[row] * v[col];
}

void outer_product(Stream& stream, const float* u, const float* v, float* y, int rows, int cols) {
  launch(outer_product_kernel, dim3(ceil_div(cols, 16), ceil_div(rows, 16)), dim3(16, 16), on(stream), u, v, y, rows,
         cols);
}
