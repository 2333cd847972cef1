// Exercise 03.3 · padding that float4 can live with: the answer.
#pragma once
#include "common/launch.hpp"

// [answer]
// (4 k + row) mod 32 is 32 different banks for 8 k and 4 rows, and rows of 132 floats start at multiples of 16 bytes.
// 1 would break the second, 8 would bring k and k + 4 into one bank.
constexpr int PAD = 4;
// [/answer]

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
