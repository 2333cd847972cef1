// 01 · naive GEMM
//
// One thread per output: reads a row of A and a column of B. Twice, with one difference: which index follows threadIdx.x.
// Predict: a warp reads 32 neighbouring floats of B in 4 sectors when x is the column, and 32 floats of A that lie K
//          floats apart in 32 sectors when x is the row. The second has to be several times slower.
// Run: make step01     Look closer: make lab01 · make profile01
#pragma once
#include "common/gemm.hpp"
#include "common/launch.hpp"

// [uncoalesced]
// x is the row, on purpose: neighbouring lanes walk down a column of C, so none of their addresses are neighbours.
inline __global__ void gemm_uncoalesced_kernel(const float* A,  // [M, K]
                                               const float* B,  // [K, N]
                                               float* C,        // [M, N]
                                               int M, int N, int K) {
  const int row = blockIdx.y * blockDim.x + threadIdx.x;
  const int col = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= M || col >= N) return;
  float sum = 0.f;
  for (int k = 0; k < K; ++k) sum += A[size_t(row) * K + k] * B[size_t(k) * N + col];
  C[size_t(row) * N + col] = sum;
}
// [/uncoalesced]

inline void gemm_uncoalesced(Stream& stream, const Gemm& p) {
  in_row_slabs(p, 32, [&](const Gemm& s, unsigned blocks) {
    launch(gemm_uncoalesced_kernel, dim3(ceil_div(s.N, 8), blocks), dim3(32, 8), on(stream), s.A, s.B, s.C, s.M, s.N,
           s.K);
  });
}

// [coalesced]
// x is the column, contiguous in memory: a warp reads one float of A, 32 neighbours of B and writes 32 neighbours of C.
inline __global__ void gemm_coalesced_kernel(const float* A,  // [M, K]
                                             const float* B,  // [K, N]
                                             float* C,        // [M, N]
                                             int M, int N, int K) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= M || col >= N) return;
  float sum = 0.f;
  for (int k = 0; k < K; ++k) sum += A[size_t(row) * K + k] * B[size_t(k) * N + col];
  C[size_t(row) * N + col] = sum;
}
// [/coalesced]

// [launch]
inline void gemm_coalesced(Stream& stream, const Gemm& p) {
  in_row_slabs(p, 8, [&](const Gemm& s, unsigned blocks) {
    launch(gemm_coalesced_kernel, dim3(ceil_div(s.N, 32), blocks), dim3(32, 8), on(stream), s.A, s.B, s.C, s.M, s.N,
           s.K);
  });
}
// [/launch]
