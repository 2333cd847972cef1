// 04 · register prefetch
//
// Against the float4 rungs: the global loads of the next tile start before the arithmetic of this one and wait in
// registers until shared memory is free.
// Predict: the latency of DRAM, some 600 to 800 clocks, hides behind 512 FMA instructions a warp; the price is 8
//          registers. Where two blocks share a multiprocessor and cover each other's waiting, there is little to gain.
// Run: make step04     Look closer: make lab04 · make profile04
#pragma once
#include "04_vectorized_double_buffer/block_tile.cuh"

// [prefetch]
template <bool VECTOR>
__global__ void __launch_bounds__(BlockTile::kThreads, 2) gemm_prefetch_kernel(const float* A,  // [M, K]
                                                                               const float* B,  // [K, N]
                                                                               float* C,        // [M, N]
                                                                               int M, int N, int K) {
  constexpr int BK = BlockTile::BK, BN = BlockTile::BN, kRowOfA = BlockTile::kRowOfA;
  __shared__ __align__(16) float As[BK * kRowOfA], Bs[BK * BN];
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  const int row0 = blockIdx.y * BlockTile::BM, col0 = blockIdx.x * BN;
  const int a_row = t / 2, a_k = t % 2 * 4;    // this thread's float4 of A: four k of one row
  const int b_k = t / 32, b_col = t % 32 * 4;  // and of B: four columns of one k

  float sum[8][8] = {};
  float4 a, b;  // the next tile's, on their way
  const float *a_from = A + size_t(row0 + a_row) * K + a_k, *b_from = B + size_t(b_k) * N + col0 + b_col;
  const auto load = [&](int k0) {
    a = load_four<VECTOR>(a_from, row0 + a_row < M ? K - k0 - a_k : 0);
    b = load_four<VECTOR>(b_from, k0 + b_k < K ? N - col0 - b_col : 0);
    a_from += BK;
    b_from += size_t(BK) * N;
  };
  // [prefetch loop]
  load(0);
  for (int k0 = 0; k0 < K; k0 += BK) {
    float* to = As + a_k * kRowOfA + a_row;
    to[0] = a.x, to[kRowOfA] = a.y, to[2 * kRowOfA] = a.z, to[3 * kRowOfA] = a.w;
    store_vec(Bs + b_k * BN + b_col, b);
    __syncthreads();  // the tiles are whole before anyone reads them
    load(k0 + BK);    // behind the last tile: nothing exists, nothing is read
    multiply_tile<TwoGroupsOfFour>(sum, As, Bs, tx, ty);
    __syncthreads();  // all have read them before they are overwritten
  }
  // [/prefetch loop]
  write_tile<TwoGroupsOfFour, VECTOR>(C, sum, M, N, row0, col0, tx, ty);
}
// [/prefetch]

inline void gemm_prefetch(Stream& stream, const Gemm& p) {
  launch_block_tiles(stream, p, all_rows_aligned(p) ? gemm_prefetch_kernel<true> : gemm_prefetch_kernel<false>);
}
