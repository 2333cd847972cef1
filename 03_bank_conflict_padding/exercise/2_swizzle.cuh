// Exercise 03.2 · a swizzle: make exercise03 EXERCISE=2
//
// A transpose through shared memory: stored along rows, read along columns. The tile has no room for padding.
// YOUR TURN: give each element another place within its row, so that neither a row nor a column has two in one bank.
#pragma once
#include "common/launch.hpp"

// Where element (r, c) of the 32 × 32 tile lies.
__device__ __forceinline__ int place(int r, int c) { return 32 * r + c; }

__global__ void transpose_tile_kernel(const float* in,  // [rows, cols]
                                      float* out,       // [cols, rows]
                                      int rows, int cols) {
  __shared__ float tile[32 * 32];
  const int tx = threadIdx.x, col0 = blockIdx.x * 32, row0 = blockIdx.y * 32;
  for (int r = threadIdx.y; r < 32; r += 8)
    if (row0 + r < rows && col0 + tx < cols) tile[place(r, tx)] = in[size_t(row0 + r) * cols + col0 + tx];
  __syncthreads();
  for (int c = threadIdx.y; c < 32; c += 8)
    if (row0 + tx < rows && col0 + c < cols) out[size_t(col0 + c) * rows + row0 + tx] = tile[place(tx, c)];
}

void transpose_tile(Stream& stream, const float* in, float* out, int rows, int cols) {
  launch(transpose_tile_kernel, dim3(ceil_div(cols, 32), ceil_div(rows, 32)), dim3(32, 8), on(stream), in, out, rows,
         cols);
}
