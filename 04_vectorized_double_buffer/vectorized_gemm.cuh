// 04 · float4, in two switches: global loads first, then shared-memory reads
//
// Against 03: four neighbouring floats move with one instruction. The arithmetic is the same.
// Predict: global: 2 loads and 5 stores a tile instead of 8 and 8, and as many sectors as before, because they were all
//          used before. Shared: 4 reads for 64 FMAs instead of 16; a row of 128 floats still costs its wavefronts, but
//          the issue slots that 12 of 16 reads took become free for FMAs.
// Run: make step04     Look closer: make lab04 · make profile04
#pragma once
#include "04_vectorized_double_buffer/block_tile.cuh"

// [vectorized]
// VECTOR: 16-byte global accesses. Owner: which outputs a thread owns, and with that how it reads shared memory.
template <bool VECTOR, class Owner>
__global__ void __launch_bounds__(BlockTile::kThreads, 2) gemm_vectorized_kernel(const float* A,  // [M, K]
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
  for (int k0 = 0; k0 < K; k0 += BK) {
    const float4 a = load_four<VECTOR>(A + size_t(row0 + a_row) * K + k0 + a_k, row0 + a_row < M ? K - k0 - a_k : 0);
    const float4 b = load_four<VECTOR>(B + size_t(k0 + b_k) * N + col0 + b_col, k0 + b_k < K ? N - col0 - b_col : 0);
    float* to = As + a_k * kRowOfA + a_row;  // transposed on the way: 16 rows and 2 groups of k, 32 banks
    to[0] = a.x, to[kRowOfA] = a.y, to[2 * kRowOfA] = a.z, to[3 * kRowOfA] = a.w;
    store_vec(Bs + b_k * BN + b_col, b);
    __syncthreads();  // the tiles are whole before anyone reads them
    multiply_tile<Owner>(sum, As, Bs, tx, ty);
    __syncthreads();  // all have read them before they are overwritten
  }
  write_tile<Owner, VECTOR>(C, sum, M, N, row0, col0, tx, ty);
}
// [/vectorized]

inline void gemm_vectorized_global(Stream& stream, const Gemm& p) {
  launch_block_tiles(stream, p,
                     all_rows_aligned(p) ? gemm_vectorized_kernel<true, EverySixteenth>
                                         : gemm_vectorized_kernel<false, EverySixteenth>);
}
inline void gemm_vectorized_shared(Stream& stream, const Gemm& p) {
  launch_block_tiles(stream, p,
                     all_rows_aligned(p) ? gemm_vectorized_kernel<true, TwoGroupsOfFour>
                                         : gemm_vectorized_kernel<false, TwoGroupsOfFour>);
}
