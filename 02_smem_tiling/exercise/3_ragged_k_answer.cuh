// Exercise 02.3 · any K: the answer.
#pragma once
#include "common/gemm.hpp"
#include "common/launch.hpp"

constexpr int TILE = 16;

__global__ void gemm_ragged_kernel(const float* A,  // [M, K]
                                   const float* B,  // [K, N]
                                   float* C,        // [M, N]
                                   int M, int N, int K) {
  __shared__ float As[TILE][TILE], Bs[TILE][TILE];
  const int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * TILE + tx, row = blockIdx.y * TILE + ty;
  float sum = 0.f;
  for (int k0 = 0; k0 < K; k0 += TILE) {
    // [answer]
    // zero adds nothing to a sum; what lay there before would
    As[ty][tx] = row < M && k0 + tx < K ? A[size_t(row) * K + k0 + tx] : 0.f;
    Bs[ty][tx] = k0 + ty < K && col < N ? B[size_t(k0 + ty) * N + col] : 0.f;
    // [/answer]
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += As[ty][k] * Bs[k][tx];
    __syncthreads();
  }
  if (row < M && col < N) C[size_t(row) * N + col] = sum;
}

void gemm_ragged(Stream& stream, const Gemm& p) {
  launch(gemm_ragged_kernel, dim3(ceil_div(p.N, TILE), ceil_div(p.M, TILE)), dim3(TILE, TILE), on(stream), p.A, p.B,
         p.C, p.M, p.N, p.K);
}
