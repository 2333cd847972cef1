// 04 · cp.async double buffer
//
// Against register prefetch: the copy goes from global to shared memory without passing through registers, into a second
// buffer, while the first is multiplied.
// Predict: one barrier a tile instead of two and 8 registers fewer; 8 KB more shared memory. A is copied float by float,
//          since cp.async cannot transpose: 4 + 1 copies a thread instead of 2 loads and 5 stores.
// Run: make step04     Look closer: make lab04 · make profile04
#pragma once
#include "04_vectorized_double_buffer/block_tile.cuh"
#include "04_vectorized_double_buffer/tile_copy.cuh"

// [double buffer]
template <bool VECTOR>
__global__ void __launch_bounds__(BlockTile::kThreads, 2) gemm_double_buffer_kernel(const float* A,  // [M, K]
                                                                                    const float* B,  // [K, N]
                                                                                    float* C,        // [M, N]
                                                                                    int M, int N, int K) {
  constexpr int kStage = BlockTile::kStage, kSizeOfA = BlockTile::BK * BlockTile::kRowOfA;
  __shared__ __align__(16) float stages[2 * kStage];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int row0 = blockIdx.y * BlockTile::BM, col0 = blockIdx.x * BlockTile::BN;

  float sum[8][8] = {};
  TileCopy<BlockTile, VECTOR> copy(A, B, M, N, K, row0, col0);
  // [double buffer loop]
  copy.start(stages);
  int current = 0;
  for (int k0 = 0; k0 < K; k0 += BlockTile::BK) {
    cp_async_wait<0>();
    __syncthreads();                        // this tile is whole, and all have read the one before it
    copy.start(stages + kStage - current);  // into the buffer of the one before; zeros behind the last tile
    multiply_tile<TwoGroupsOfFour>(sum, stages + current, stages + current + kSizeOfA, tx, ty);
    current = kStage - current;
  }
  // [/double buffer loop]
  cp_async_wait<0>();  // a block must not end while a copy, here of the zeros, is under way
  write_tile<TwoGroupsOfFour, VECTOR>(C, sum, M, N, row0, col0, tx, ty);
}
// [/double buffer]

inline void gemm_double_buffer(Stream& stream, const Gemm& p) {
  launch_block_tiles(stream, p,
                     rows_of_B_aligned(p) ? gemm_double_buffer_kernel<true> : gemm_double_buffer_kernel<false>);
}
