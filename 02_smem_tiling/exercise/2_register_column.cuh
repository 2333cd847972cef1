// Exercise 02.2 · a column of outputs in registers: make exercise02 EXERCISE=2
//
// A thread has four outputs of one column. It computes them one after the other, and reads two floats of shared memory for
// each multiply-add.
// YOUR TURN: bring it down to 1.25 reads. A value of B that is in a register can serve four sums.
#pragma once
#include "common/gemm.hpp"
#include "common/launch.hpp"

// C = A · B for M, N, K that are multiples of 32; 32 × 8 threads, four outputs each.
__global__ void gemm_column_kernel(const float* A,  // [M, K]
                                   const float* B,  // [K, N]
                                   float* C,        // [M, N]
                                   int N, int K) {
  __shared__ float As[32][32], Bs[32][32];
  const int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 32 + tx, row0 = blockIdx.y * 32;
  float sum[4] = {};
  for (int k0 = 0; k0 < K; k0 += 32) {
    for (int r = ty; r < 32; r += 8) {
      As[r][tx] = A[size_t(row0 + r) * K + k0 + tx];
      Bs[r][tx] = B[size_t(k0 + r) * N + col];
    }
    __syncthreads();  // the tiles are whole
    for (int r = 0; r < 4; ++r)
      for (int k = 0; k < 32; ++k) sum[r] += As[ty + 8 * r][k] * Bs[k][tx];
    __syncthreads();  // all have read them
  }
  for (int r = 0; r < 4; ++r) C[size_t(row0 + ty + 8 * r) * N + col] = sum[r];
}

void gemm_column(Stream& stream, const Gemm& p) {
  launch(gemm_column_kernel, dim3(p.N / 32, p.M / 32), dim3(32, 8), on(stream), p.A, p.B, p.C, p.N, p.K);
}
