// 04 · warp tiles, register banks, and K shared out among the warps of a block
//
// Against the cp.async rung: a warp owns a rectangle of C that is as square as it can be, a thread up to 16 × 8 of it, and
// the operands of the next k are read from shared memory while those of this k are multiplied. BANKS is a switch of its
// own: the same arithmetic in an order for which the registers of an FMA lie in different banks.
// Predict: for each k a warp reads 4 + 2 float4 per lane, 2 wavefronts each thanks to the lane map, for 128 FMA
//          instructions: 12 shared-memory clocks an SM's pipe against 32 clocks of arithmetic. Arithmetic is the wall,
//          and what feeds it is the register file: two banks, so two new operands a clock, one of either parity.
// Run: make step04     Look closer: make lab04 · make profile04
#pragma once
#include "04_vectorized_double_buffer/tile_copy.cuh"
#include "common/gemm.hpp"
#include "common/launch.hpp"

// The sizes of one kernel: a block computes BLOCK_M × BLOCK_N of C in steps of BLOCK_K, a thread THREAD_M × THREAD_N.
// SLICES sets of warps compute the same tile, each from its slice of every BLOCK_K, and add up at the end: for matrices
// C so small that there is one block a multiprocessor, which needs eight warps or more to hide what it waits for.
template <int BLOCK_M, int BLOCK_N, int BLOCK_K, int THREAD_M, int THREAD_N, int SLICES, int BLOCKS_PER_SM>
struct WarpTiles {
  static constexpr int BM = BLOCK_M, BN = BLOCK_N, BK = BLOCK_K, TM = THREAD_M, TN = THREAD_N;
  static constexpr int WM = 4 * TM, WN = 8 * TN;  // a warp is 4 lanes high and 8 wide
  static constexpr int kSlices = SLICES, kSliceK = BK / SLICES;
  static constexpr int kWarps = (BM / WM) * (BN / WN);  // of one slice
  static constexpr int kThreads = 32 * kWarps * SLICES;
  static constexpr int kBlocksPerSm = BLOCKS_PER_SM;
  static constexpr int kRowOfA = BM + 4;  // A lies k-major; 4 spare floats spread its transposing stores (step 03)
  static constexpr int kStage = BK * (kRowOfA + BN);
  static constexpr int kStripRow = WN + 8;      // 8 spare floats: the four rows of a strip start in different banks
  static constexpr int kStrip = 4 * kStripRow;  // what a warp hands to the store at once
  static constexpr size_t kSharedBytes = 2 * kStage * sizeof(float);
  static __device__ __forceinline__ int warp_row(int warp) { return warp / (BN / WN) * WM; }  // of a warp of a slice
  static __device__ __forceinline__ int warp_col(int warp) { return warp % (BN / WN) * WN; }
  static_assert(BM % WM == 0 && BN % WN == 0, "a block is a whole number of warp tiles");
  static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread reads its operands as float4");
  static_assert(BK % 8 == 0, "eight neighbouring threads copy eight neighbouring k of a row of A: one sector");
  static_assert(BK == kSliceK * SLICES && kSliceK % 2 == 0,
                "the two operand buffers swap once per k and must be back in place for the next tile");
  static_assert(kThreads <= 1024, "a block has at most 1024 threads");
  static_assert(2 * kThreads / 32 * kStrip <= 2 * kStage, "the strips of C fit where the tiles were");
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

// Adds the sums of all slices and writes the block's tile, in strips of 4 rows of a warp tile that pass through shared
// memory: a warp then writes 32 neighbouring floats, wherever a row of C starts. `strips` holds two for each warp.
// BANKS: the two floats of a pair change places on the way, so that in the thread the sum of an even column needs an odd
// register and the column's value of B an even one.
template <class T, bool BANKS>
__device__ __forceinline__ void write_strips(float* C, const float (&sum)[T::TM][T::TN], float* strips, int M, int N,
                                             int row0, int col0) {  // the first element of the block's tile
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, slice = warp / T::kWarps;
  const int x = lane / 8 * 2 + lane % 2, y = lane / 2 % 4;
  row0 += T::warp_row(warp % T::kWarps), col0 += T::warp_col(warp % T::kWarps);
#pragma unroll
  for (int i = 0; i < T::TM; ++i) {
    float* const strip = strips + i % 2 * (T::kThreads / 32 * T::kStrip);  // two in turn: one barrier each
#pragma unroll
    for (int j = 0; j < T::TN; j += 4)
      store_vec(strip + warp * T::kStrip + y * T::kStripRow + 4 * x + 8 * j,
                BANKS ? make_float4(sum[i][j + 1], sum[i][j], sum[i][j + 3], sum[i][j + 2])
                      : make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));
    if (T::kSlices == 1)
      __syncwarp();
    else
      __syncthreads();
#pragma unroll
    for (int part = slice; part < 4 * T::WN / 32; part += T::kSlices) {
      const int r = part / (T::WN / 32), c = part % (T::WN / 32) * 32 + lane;
      const float* from = strip + warp % T::kWarps * T::kStrip + r * T::kStripRow + (BANKS ? c ^ 1 : c);
      float total = from[0];
#pragma unroll
      for (int s = 1; s < T::kSlices; ++s) total += from[s * T::kWarps * T::kStrip];
      const int row = row0 + i / 4 * 16 + 4 * r + i % 4;
      if (row < M && col0 + c < N) C[size_t(row) * N + col0 + c] = total;
    }
  }
}

// sum += A · B over the columns k_begin … k_end of A, one at least, for the block's tile of C that starts at (row0, col0).
// k_begin is a multiple of BK, and k_end as well or else K. When it returns, nobody needs `shared` any more.
// [warp tile]
template <class T, bool BANKS, bool VECTOR>
__device__ __forceinline__ void add_product(float (&sum)[T::TM][T::TN], float* shared,  // two stages
                                            const float* A,                             // [M, K]
                                            const float* B,                             // [K, N]
                                            int M, int N, int K, int row0, int col0, int k_begin, int k_end) {
  // [lane map]
  // Lanes 2l and 2l+1 share a row of the warp tile, l and l+2 a column: pairs the shared memory serves together.
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % T::kWarps;
  const int x = lane / 8 * 2 + lane % 2, y = lane / 2 % 4;
  // [/lane map]
  const int first_k = T::kSlices == 1 ? 0 : threadIdx.x / 32 / T::kWarps * T::kSliceK;

  float a[2][T::TM], b[2][T::TN];
  const float* const my_a = shared + first_k * T::kRowOfA + T::warp_row(warp) + 4 * y;
  const float* const my_b = shared + T::BK * T::kRowOfA + first_k * T::BN + T::warp_col(warp) + 4 * x;
  const auto read_operands = [&](int stage, int k, int to) {
    read_fragment(a[to], my_a + stage + k * T::kRowOfA, 16);
    read_fragment(b[to], my_b + stage + k * T::BN, 32);
  };

  TileCopy<T, VECTOR> copy(A, B, M, N, K, row0, col0, k_begin, k_end);
  copy.start(shared);
  cp_async_wait<0>();
  __syncthreads();
  read_operands(0, 0, 0);
  int here = 0, k0 = k_begin;
  do {  // there is at least one tile; with a test in front nvcc chooses registers with more bank conflicts
    const int next = T::kStage - here;
#pragma unroll
    for (int k = 0; k < T::kSliceK; ++k) {
      if (k + 1 < T::kSliceK) {
        read_operands(here, k + 1, (k + 1) % 2);
      } else {
        cp_async_wait<0>();
        __syncthreads();  // the next tile is whole, and the last operands of this one are in registers
        read_operands(next, 0, 0);
      }
      if (k == 0) copy.start(shared + next);  // behind the last tile: zeros, which nobody multiplies
#pragma unroll
      for (int i = 0; i < T::TM; ++i)
#pragma unroll
        for (int step = 0; step < T::TN; ++step) {
          const int j = BANKS && i % 2 == 1 ? T::TN - 1 - step : step;  // forth and back: a or b is the one just used
          sum[i][j] += a[k % 2][i] * b[k % 2][j];
        }
    }
    here = next;
    k0 += T::BK;
  } while (k0 < k_end);
  __syncthreads();  // all have read the last operands
}

template <class T, bool BANKS, bool VECTOR>
__global__ void __launch_bounds__(T::kThreads, T::kBlocksPerSm) gemm_warp_tile_kernel(const float* A,  // [M, K]
                                                                                      const float* B,  // [K, N]
                                                                                      float* C,        // [M, N]
                                                                                      int M, int N, int K) {
  float* const shared = dynamic_shared<float>();
  const int row0 = blockIdx.y * T::BM, col0 = blockIdx.x * T::BN;
  float sum[T::TM][T::TN] = {};
  add_product<T, BANKS, VECTOR>(sum, shared, A, B, M, N, K, row0, col0, 0, K);
  write_strips<T, BANKS>(C, sum, shared, M, N, row0, col0);  // the strips take the place of the tiles
}
// [/warp tile]

template <class T, bool BANKS = true>
void gemm_warp_tile(Stream& stream, const Gemm& p) {
  const auto kernel =
      rows_of_B_aligned(p) ? gemm_warp_tile_kernel<T, BANKS, true> : gemm_warp_tile_kernel<T, BANKS, false>;
  in_row_slabs(p, T::BM, [&](const Gemm& s, unsigned blocks) {
    launch(kernel, dim3(ceil_div(s.N, T::BN), blocks), dim3(T::kThreads), on(stream).smem(T::kSharedBytes), s.A, s.B,
           s.C, s.M, s.N, s.K);
  });
}

using Tile128x256 = WarpTiles<128, 256, 16, 16, 8, 1, 1>;
using Tile128x128 = WarpTiles<128, 128, 16, 16, 8, 1, 2>;
using Tile64x64 = WarpTiles<64, 64, 32, 16, 8, 4, 2>;
using Tile32x64 = WarpTiles<32, 64, 64, 8, 8, 8, 1>;
