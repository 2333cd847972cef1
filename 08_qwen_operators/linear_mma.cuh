// 08 · linear layers for many rows (prefill): y[M, N] = x[M, K] · W[N, K]ᵀ in bfloat16 on tensor cores
//
// Step 04's plan with other numbers: tiles of x and W travel to shared memory with cp.async, three deep, and each warp
// computes a tile of its own in registers, here by mma.m16n8k16. Both operands have K as their contiguous dimension,
// which is what ldmatrix wants, so nothing is transposed.
//   · A row of a tile is 64 columns, 128 bytes: 8 chunks of 16 bytes. Chunk c of row r lies at place c ^ (r mod 8), so that
//     the 8 rows of one ldmatrix matrix meet all 32 banks.
//   · Blocks are numbered so that 8 neighbours down M share a tile of W in the L2.
//   · Where a row of K is no multiple of 16 bytes the tiles are filled element by element: right, and slower.
// Predict: mma.sync is Ampere's instruction; on Hopper it reaches about six tenths of what wgmma does.
#pragma once
#include "08_qwen_operators/linear_simt.cuh"

template <int BM_, int BN_, int WM_, int WN_, int STAGES_>
struct LinearTile {
  static constexpr int BM = BM_, BN = BN_, BK = 64, WM = WM_, WN = WN_, STAGES = STAGES_;
  static constexpr int WARPS_N = BN / WN, THREADS = 32 * (BM / WM) * WARPS_N;
  static constexpr size_t SHARED = size_t(STAGES) * (BM + BN) * BK * sizeof(bfloat16);
  static_assert(BM % WM == 0 && BN % WN == 0, "a block is a whole number of warp tiles");
  static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp tile is whole mma tiles, and ldmatrix.x4 fetches two of N");
};

// Where chunk `chunk` (8 columns) of row `row` of a tile lies, in elements.
__device__ __forceinline__ int swizzled(int row, int chunk) { return row * 64 + (chunk ^ (row % 8)) * 8; }

// ROWS × 64 elements of `from`, rows first … and columns k0 …, zeros outside [rows, K].
template <int ROWS, int THREADS, bool VECTOR>
__device__ __forceinline__ void fetch_tile(bfloat16* tile, const bfloat16* from, int first, int rows, int k0, int K) {
  for (int i = threadIdx.x; i < ROWS * 8; i += THREADS) {
    const int row = i / 8, chunk = i % 8, k = k0 + 8 * chunk;
    const bool inside = first + row < rows;
    const bfloat16* source = from + int64_t(inside ? first + row : 0) * K;
    if (VECTOR) {
      const bool valid = inside && k < K;
      cp_async_16(tile + swizzled(row, chunk), valid ? source + k : from, valid);
    } else {
      for (int j = 0; j < 8; ++j)
        tile[swizzled(row, chunk) + j] = inside && k + j < K ? source[k + j] : __float2bfloat16(0.f);
    }
  }
}

// [linear_mma]
template <class Tile, class Out, bool VECTOR>
__global__ void __launch_bounds__(Tile::THREADS, 2) linear_mma_kernel(LinearArguments<Out> p) {
  constexpr int BM = Tile::BM, BN = Tile::BN, BK = Tile::BK, WM = Tile::WM, WN = Tile::WN, STAGES = Tile::STAGES;
  pdl_launch_dependents();
  bfloat16* x_tiles = dynamic_shared<bfloat16>();
  bfloat16* w_tiles = x_tiles + STAGES * BM * BK;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp / Tile::WARPS_N * WM, warp_n = warp % Tile::WARPS_N * WN;
  const int2 block = block_in_bands(ceil_div(p.M, BM), ceil_div(p.N, BN));
  const int row0 = block.x * BM, col0 = block.y * BN, k_tiles = ceil_div(p.K, BK);
  pdl_wait();

  const auto fetch = [&](int k_tile) {
    if (k_tile < k_tiles) {
      const int stage = k_tile % STAGES;
      fetch_tile<BM, Tile::THREADS, VECTOR>(x_tiles + stage * BM * BK, p.x, row0, p.M, k_tile * BK, p.K);
      fetch_tile<BN, Tile::THREADS, VECTOR>(w_tiles + stage * BN * BK, p.W, col0, p.N, k_tile * BK, p.K);
    }
    cp_async_commit();  // empty at the end, so that the count of groups in flight stays the same
  };
  for (int t = 0; t < STAGES - 1; ++t) fetch(t);

  float c[WM / 16][WN / 8][4] = {};
  for (int t = 0; t < k_tiles; ++t) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();  // tile t is whole, and all have finished tile t − 1, whose place the next fetch takes
    fetch(t + STAGES - 1);
    const bfloat16 *x_tile = x_tiles + t % STAGES * BM * BK, *w_tile = w_tiles + t % STAGES * BN * BK;
#pragma unroll
    for (int k = 0; k < BK / 8; k += 2) {  // in chunks: 16 columns
      uint32_t a[WM / 16][4], b[WN / 16][4];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)  // lanes 0–15: rows of the left half, 16–31: of the right
        ldmatrix_x4(a[i], x_tile + swizzled(warp_m + 16 * i + lane % 16, k + lane / 16));
#pragma unroll
      for (int j = 0; j < WN / 16; ++j)  // lanes 0–7 and 8–15: both halves of K for 8 columns of y; 16–31: the next 8
        ldmatrix_x4(b[j], w_tile + swizzled(warp_n + 16 * j + lane / 16 * 8 + lane % 8, k + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
          mma_m16n8k16_bf16(c[i][j], a[i], {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]});
    }
  }

#pragma unroll
  for (int i = 0; i < WM / 16; ++i)
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
      const int row = row0 + warp_m + 16 * i + lane / 4, col = col0 + warp_n + 8 * j + lane % 4 * 2;
      store_outputs(p, row, col, c[i][j][0], c[i][j][1]);
      store_outputs(p, row + 8, col, c[i][j][2], c[i][j][3]);
    }
}
// [/linear_mma]

template <class Tile, class Out>
void launch_linear_mma(Stream& stream, const LinearArguments<Out>& p, bool pdl) {
  const bool vector = p.K % 8 == 0 && aligned_to(p.x, 16) && aligned_to(p.W, 16);
  launch(vector ? linear_mma_kernel<Tile, Out, true> : linear_mma_kernel<Tile, Out, false>,
         dim3(blocks_of(p.M, Tile::BM, p.N, Tile::BN)), dim3(Tile::THREADS), on(stream).smem(Tile::SHARED).pdl(pdl), p);
}

using LinearTileLarge =
    LinearTile<128, 128, 64, 32, 3>;  // 8 warps, 96 KB: two blocks fit on an H200 or one on an RTX 3060
using LinearTileMiddle = LinearTile<64, 64, 32, 32, 3>;  // 4 warps, 48 KB
using LinearTileSmall =
    LinearTile<16, 64, 16, 16, 4>;  // 4 warps, 40 KB: for a few rows, when W is all there is to read

// The largest tile that still gives three of four multiprocessors a block.
template <class Out>
void launch_linear(Stream& stream, const LinearArguments<Out>& p, bool pdl) {
  const auto enough = [&](int BM, int BN) {
    return 4 * int64_t(blocks_of(p.M, BM, p.N, BN)) >= 3 * device().multiprocessors;
  };
  if (!device().has_bf16_mma)
    launch_linear_simt(stream, p, pdl);
  else if (p.M > 64 && enough(128, 128) && device().shared_bytes_per_block >= LinearTileLarge::SHARED)
    launch_linear_mma<LinearTileLarge>(stream, p, pdl);
  else if (p.M > 16)
    launch_linear_mma<LinearTileMiddle>(stream, p, pdl);
  else
    launch_linear_mma<LinearTileSmall>(stream, p, pdl);
}

// y = x Wᵀ (+ bias); Out is float or bfloat16. Any M, N, K ≥ 1.
template <class Out>
void linear(Stream& stream,
            const bfloat16* x,  // [M, K]
            const bfloat16* W,  // [N, K]
            Out* y,             // [M, N]
            int M, int N, int K,
            const bfloat16* bias = nullptr,  // [N]
            bool pdl = false) {
  launch_linear(stream, LinearArguments<Out>{x, W, bias, y, M, N, K, false}, pdl);
}

// residual += x Wᵀ
inline void linear_add(Stream& stream,
                       const bfloat16* x,  // [M, K]
                       const bfloat16* W,  // [N, K]
                       float* residual,    // [M, N], updated
                       int M, int N, int K, bool pdl = false) {
  launch_linear(stream, LinearArguments<float>{x, W, nullptr, residual, M, N, K, true}, pdl);
}
