// Exercise 03.3 · padding that float4 can live with: make exercise03 EXERCISE=3
//
// Eight neighbouring lanes store eight different k of one row, 128 floats apart: one bank. The read takes 16 bytes a lane.
// YOUR TURN: choose PAD. A warp stores 4 rows × 8 k, so work out (k · (128 + PAD) + row) mod 32 for k = 0 … 7 and
// row = 0 … 3; and what must hold for every row of the tile, so that a float4 can be read from it?
#pragma once
#include "common/launch.hpp"

constexpr int PAD = 0;

// The k tile of a GEMM's A, turned round: out[k][row] = a[row][k]. 256 threads and 128 rows a block.
__global__ void turn_kernel(const float* a,  // [rows, 8]
                            float* out,      // [8, rows]
                            int rows) {
  __shared__ __align__(16) float tile[8][128 + PAD];
  const int t = threadIdx.x, row0 = blockIdx.x * 128;
  for (int r = t / 8; r < 128; r += 32) tile[t % 8][r] = a[size_t(row0 + r) * 8 + t % 8];  // four rows a warp
  __syncthreads();
  const int k = t / 32, r = t % 32 * 4;  // a warp takes one k
  store_vec(out + size_t(k) * rows + row0 + r, load_vec<float4>(&tile[k][r]));
}

// For `rows` that are a multiple of 128.
void turn(Stream& stream, const float* a, float* out, int rows) {
  launch(turn_kernel, rows / 128, 256, on(stream), a, out, rows);
}
