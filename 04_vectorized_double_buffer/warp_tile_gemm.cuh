// 04 · warp tiles: the best GEMM of this tutorial
//
// Against the cp.async rung: a warp owns a rectangle of C that is as square as it can be, a thread 16 × 8 of it, and the
// operands of the next k are read from shared memory while those of this k are multiplied.
// Predict: for each k a warp reads 4 + 2 float4 per lane, 2 wavefronts each thanks to the lane map, for 128 FMA
//          instructions: 12 shared-memory clocks an SM's pipe against 32 clocks of arithmetic. Arithmetic is the wall.
// Run: make step04     Look closer: make lab04 · make profile04
#pragma once
#include <cmath>

#include "04_vectorized_double_buffer/tile_copy.cuh"
#include "common/gemm.hpp"
#include "common/launch.hpp"

// The sizes of one kernel: a block computes BLOCK_M × BLOCK_N of C in steps of BLOCK_K, a thread THREAD_M × THREAD_N.
template <int BLOCK_M, int BLOCK_N, int BLOCK_K, int THREAD_M, int THREAD_N, int BLOCKS_PER_SM>
struct WarpTiles {
  static constexpr int BM = BLOCK_M, BN = BLOCK_N, BK = BLOCK_K, TM = THREAD_M, TN = THREAD_N;
  static constexpr int WM = 4 * TM, WN = 8 * TN;  // a warp is 4 lanes high and 8 wide
  static constexpr int kThreads = 32 * (BM / WM) * (BN / WN);
  static constexpr int kBlocksPerSm = BLOCKS_PER_SM;
  static constexpr int kRowOfA = BM + 4;  // A lies k-major; 4 spare floats spread its transposing stores (step 03)
  static constexpr int kStage = BK * (kRowOfA + BN);
  static constexpr size_t kSharedBytes = 2 * kStage * sizeof(float);
  static_assert(BM % WM == 0 && BN % WN == 0, "a block is a whole number of warp tiles");
  static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread reads its operands as float4");
  static_assert(BK % 8 == 0, "eight neighbouring threads copy eight neighbouring k of a row of A: one sector");
  static_assert(BK % 2 == 0, "the two operand buffers swap once per k and must be back in place for the next tile");
  static_assert(kThreads <= 1024, "a block has at most 1024 threads");
};

// COUNT floats in groups of four that lie `step` floats apart.
template <int COUNT>
__device__ __forceinline__ void read_fragment(float (&to)[COUNT], const float* from, int step) {
#pragma unroll
  for (int g = 0; g < COUNT / 4; ++g) {
    const float4 v = load_vec<float4>(from + g * step);
    to[4 * g] = v.x, to[4 * g + 1] = v.y, to[4 * g + 2] = v.z, to[4 * g + 3] = v.w;
  }
}

// [warp tile]
template <class T, bool VECTOR>
__global__ void __launch_bounds__(T::kThreads, T::kBlocksPerSm) gemm_warp_tile_kernel(const float* A,  // [M, K]
                                                                                      const float* B,  // [K, N]
                                                                                      float* C,        // [M, N]
                                                                                      int M, int N, int K) {
  float* shared = dynamic_shared<float>();  // two stages
  // Lanes 2l and 2l+1 share a row of the warp tile, l and l+2 a column: pairs the shared memory serves together.
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int x = lane / 8 * 2 + lane % 2, y = lane / 2 % 4;
  const int warps_wide = T::BN / T::WN;
  const int my_row = warp / warps_wide * T::WM + 4 * y, my_col = warp % warps_wide * T::WN + 4 * x;
  const int row0 = blockIdx.y * T::BM, col0 = blockIdx.x * T::BN;

  float sum[T::TM][T::TN] = {}, a[2][T::TM], b[2][T::TN];
  const auto read_operands = [&](const float* stage, int k, int to) {
    read_fragment(a[to], stage + k * T::kRowOfA + my_row, 16);
    read_fragment(b[to], stage + T::BK * T::kRowOfA + k * T::BN + my_col, 32);
  };

  TileCopy<T, VECTOR> copy(A, B, M, N, K, row0, col0);
  copy.start(shared);
  cp_async_wait<0>();
  __syncthreads();
  read_operands(shared, 0, 0);
  int current = 0;
  for (int k0 = 0; k0 < K; k0 += T::BK) {
    const float* here = shared + current;
    float* next = shared + (T::kStage - current);
#pragma unroll
    for (int k = 0; k < T::BK; ++k) {
      if (k + 1 < T::BK) {
        read_operands(here, k + 1, (k + 1) % 2);
      } else {
        cp_async_wait<0>();
        __syncthreads();  // the next tile is whole, and the last operands of this one are in registers
        read_operands(next, 0, 0);
      }
      if (k == 0) copy.start(next);  // behind the last tile: zeros, which nobody reads
        // Columns outside, rows inside: nvcc 13.0 then finds registers for a, b and sum that share a bank less often.
#pragma unroll
      for (int j = 0; j < T::TN; ++j)
#pragma unroll
        for (int i = 0; i < T::TM; ++i) sum[i][j] += a[k % 2][i] * b[k % 2][j];
    }
    current = T::kStage - current;
  }

#pragma unroll
  for (int i = 0; i < T::TM; ++i) {
    const int row = row0 + my_row + i / 4 * 16 + i % 4;
#pragma unroll
    for (int j = 0; j < T::TN; j += 4) {
      const int col = col0 + my_col + j / 4 * 32;
      float* to = C + size_t(row) * N + col;
      if (VECTOR && row < M && col < N)
        store_vec(to, make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
      if (!VECTOR && row < M)
        for (int e = 0; e < 4; ++e)
          if (col + e < N) to[e] = sum[i][j + e];
    }
  }
}
// [/warp tile]

template <class T>
void gemm_warp_tile(Stream& stream, const Gemm& p) {
  const auto kernel = rows_of_B_aligned(p) ? gemm_warp_tile_kernel<T, true> : gemm_warp_tile_kernel<T, false>;
  in_row_slabs(p, T::BM, [&](const Gemm& s, unsigned blocks) {
    launch(kernel, dim3(ceil_div(s.N, T::BN), blocks), dim3(T::kThreads), on(stream).smem(T::kSharedBytes), s.A, s.B,
           s.C, s.M, s.N, s.K);
  });
}

using Tile128x256 = WarpTiles<128, 256, 8, 16, 8, 1>;
using Tile128x256Deep = WarpTiles<128, 256, 16, 16, 8, 1>;
using Tile128x128 = WarpTiles<128, 128, 8, 16, 8, 2>;
using Tile128x128Deep = WarpTiles<128, 128, 16, 16, 8, 2>;
using Tile128x128Small = WarpTiles<128, 128, 8, 8, 8, 2>;
using Tile64x64 = WarpTiles<64, 64, 16, 4, 8, 4>;

// The best form. Large tiles need fewer loads for each FMA; small ones give every multiprocessor a block sooner.
inline void gemm_best(Stream& stream, const Gemm& p) {
  const auto blocks = [&](double m, double n) { return std::ceil(p.M / m) * std::ceil(p.N / n); };
  const double multiprocessors = device().multiprocessors;
  if (blocks(128, 256) >= multiprocessors / 2)
    gemm_warp_tile<Tile128x256>(stream, p);
  else if (blocks(128, 128) >= multiprocessors / 2)
    gemm_warp_tile<Tile128x128>(stream, p);
  else
    gemm_warp_tile<Tile64x64>(stream, p);
}
