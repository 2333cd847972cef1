// 02 · register tiles
//
// Against the 32×32 tile: a thread keeps several outputs in registers, so that one value read from shared memory serves
// several FMAs.
// Predict: 8 outputs in a column: 9 shared reads for 8 FMAs instead of 16. 8×8 outputs: 16 reads for 64 FMAs, and a
//          128×128 block tile fetches each value of A and B a quarter as often from global memory as a 32×32 one.
//          A has to lie transposed for that, and its store then conflicts 8-fold: step 03's subject.
// Run: make step02     Look closer: make lab02 · make profile02
#pragma once
#include "common/gemm.hpp"
#include "common/launch.hpp"

// [register column]
// A block computes 64 × 64 of C, a thread 8 outputs of one column.
inline __global__ void gemm_register_column_kernel(const float* A,  // [M, K]
                                                   const float* B,  // [K, N]
                                                   float* C,        // [M, N]
                                                   int M, int N, int K) {
  constexpr int BM = 64, BN = 64, BK = 8, TM = 8;
  static_assert(BM * BK == BN * BM / TM && BK * BN == BN * BM / TM, "every thread copies one float of A and one of B");
  static_assert(BN % 32 == 0, "a warp works on one group of rows, so that its reads of A are broadcasts");
  __shared__ float As[BM][BK], Bs[BK][BN];
  const int tx = threadIdx.x, ty = threadIdx.y, t = ty * BN + tx;  // BN × BM/TM threads
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

  float sum[TM] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
    const int a_row = t / BK, a_k = t % BK, b_k = t / BN, b_col = t % BN;
    As[a_row][a_k] = row0 + a_row < M && k0 + a_k < K ? A[size_t(row0 + a_row) * K + k0 + a_k] : 0.f;
    Bs[b_k][b_col] = k0 + b_k < K && col0 + b_col < N ? B[size_t(k0 + b_k) * N + col0 + b_col] : 0.f;
    __syncthreads();  // the tiles are whole before anyone reads them
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      const float b = Bs[k][tx];  // read once, used TM times
#pragma unroll
      for (int i = 0; i < TM; ++i) sum[i] += As[ty * TM + i][k] * b;
    }
    __syncthreads();  // all have read them before they are overwritten
  }
  for (int i = 0; i < TM; ++i) {
    const int row = row0 + ty * TM + i, col = col0 + tx;
    if (row < M && col < N) C[size_t(row) * N + col] = sum[i];
  }
}
// [/register column]

inline void gemm_register_column(Stream& stream, const Gemm& p) {
  in_row_slabs(p, 64, [&](const Gemm& s, unsigned blocks) {
    launch(gemm_register_column_kernel, dim3(ceil_div(s.N, 64), blocks), dim3(64, 8), on(stream), s.A, s.B, s.C, s.M,
           s.N, s.K);
  });
}

// [register tile]
// A block computes 128 × 128 of C, a thread 8 × 8 outputs: every 16th row and column, so that neighbouring lanes touch
// neighbouring columns.
inline __global__ void gemm_register_tile_kernel(const float* A,  // [M, K]
                                                 const float* B,  // [K, N]
                                                 float* C,        // [M, N]
                                                 int M, int N, int K) {
  constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8, kThreads = 256;
  static_assert(BM / TM * (BN / TN) == kThreads, "the threads' tiles cover the block's tile");
  static_assert(BM * BK % kThreads == 0 && BK * BN % kThreads == 0, "every thread copies equally many floats");
  __shared__ float As[BK][BM], Bs[BK][BN];  // A lies transposed: a thread's eight rows are read for one k
  const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

  float sum[TM][TN] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
    for (int i = 0; i < BM * BK / kThreads; ++i) {
      const int r = t / BK + i * (kThreads / BK), k = t % BK;
      As[k][r] = row0 + r < M && k0 + k < K ? A[size_t(row0 + r) * K + k0 + k] : 0.f;  // 8 lanes, one bank
    }
#pragma unroll
    for (int i = 0; i < BK * BN / kThreads; ++i) {
      const int k = t / BN + i * (kThreads / BN), c = t % BN;
      Bs[k][c] = k0 + k < K && col0 + c < N ? B[size_t(k0 + k) * N + col0 + c] : 0.f;
    }
    __syncthreads();  // the tiles are whole before anyone reads them
// [outer product]
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
      for (int i = 0; i < TM; ++i) a[i] = As[k][ty + 16 * i];
      for (int j = 0; j < TN; ++j) b[j] = Bs[k][tx + 16 * j];
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];
    }
    // [/outer product]
    __syncthreads();  // all have read them before they are overwritten
  }
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) {
      const int row = row0 + ty + 16 * i, col = col0 + tx + 16 * j;
      if (row < M && col < N) C[size_t(row) * N + col] = sum[i][j];
    }
}
// [/register tile]

inline void gemm_register_tile(Stream& stream, const Gemm& p) {
  in_row_slabs(p, 128, [&](const Gemm& s, unsigned blocks) {
    launch(gemm_register_tile_kernel, dim3(ceil_div(s.N, 128), blocks), dim3(16, 16), on(stream), s.A, s.B, s.C, s.M,
           s.N, s.K);
  });
}
