// 02 · shared-memory tiling
//
// Against 01: a value of A or B is fetched from global memory once per tile, not once per thread.
// Predict: 2·32³ FLOP for 2·32²·4 bytes = 8 FLOP per byte; DRAM alone would allow 8 × its bandwidth, so the next wall is
//          shared memory: two 1-wavefront reads for one FMA (the compiler merges four reads of As, which leaves 1.25).
// Run: make step02     Look closer: make lab02 · make profile02
#pragma once
#include "common/gemm.hpp"
#include "common/launch.hpp"

// [tiled]
template <int TILE>
__global__ void gemm_tiled_kernel(const float* A,  // [M, K]
                                  const float* B,  // [K, N]
                                  float* C,        // [M, N]
                                  int M, int N, int K) {
  static_assert(TILE * TILE <= 1024, "one thread per output: a block has at most 1024 threads");
  __shared__ float As[TILE][TILE], Bs[TILE][TILE];
  const int tx = threadIdx.x, ty = threadIdx.y;  // x is the column, contiguous in memory
  const int col = blockIdx.x * TILE + tx, row = blockIdx.y * TILE + ty;

  float sum = 0.f;
  for (int k0 = 0; k0 < K; k0 += TILE) {
    As[ty][tx] = row < M && k0 + tx < K ? A[size_t(row) * K + k0 + tx] : 0.f;
    Bs[ty][tx] = k0 + ty < K && col < N ? B[size_t(k0 + ty) * N + col] : 0.f;
    __syncthreads();                                              // the tile is whole before anyone reads it
    for (int k = 0; k < TILE; ++k) sum += As[ty][k] * Bs[k][tx];  // As: a broadcast, Bs: a row; 1 wavefront each
    __syncthreads();                                              // all have read it before it is overwritten
  }
  if (row < M && col < N) C[size_t(row) * N + col] = sum;
}
// [/tiled]

inline void gemm_tiled_32(Stream& stream, const Gemm& p) {
  constexpr int TILE = 32;
  in_row_slabs(p, TILE, [&](const Gemm& s, unsigned blocks) {
    launch(gemm_tiled_kernel<TILE>, dim3(ceil_div(s.N, TILE), blocks), dim3(TILE, TILE), on(stream), s.A, s.B, s.C, s.M,
           s.N, s.K);
  });
}
