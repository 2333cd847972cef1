// 08 · the kernel of linear_mma.cuh: one tile of y = x Wᵀ a block, on tensor cores (mma.m16n8k16)
//
//   · A row of a tile in shared memory is 64 columns, 128 bytes: 8 chunks of 16 bytes. Chunk c of row r lies at place
//     c ^ (r mod 8), so that the 8 rows of one ldmatrix matrix meet all 32 banks.
//   · Every thread copies the same chunk of a few rows. Where these rows begin is computed once: a copy in the loop is one
//     address and one cp.async. (A first version computed rows, bounds and swizzle anew for each tile: 460 instructions
//     a thread beside 64 mma.)
//   · Rows beyond the matrix repeat its last row; what they lead to is never stored. Only the end of K needs zeros.
//   · Fragments of step k + 1 are on the way while the mma of step k run, across the barrier between two tiles too.
//   · Weights never change: the first tiles of W are fetched before pdl_wait().
//   · blockIdx.y takes a piece of K (split-K) and writes its own y.
#pragma once
#include "08_qwen_operators/linear_simt.cuh"
#include "08_qwen_operators/swiglu.cuh"

// BM × BN outputs a block, WM × WN a warp; tiles of STAGES steps of K in flight; BLOCKS a multiprocessor at least.
template <int BM_, int BN_, int WM_, int WN_, int STAGES_, int BLOCKS_>
struct LinearTile {
  static constexpr int BM = BM_, BN = BN_, BK = 64, WM = WM_, WN = WN_, STAGES = STAGES_, BLOCKS = BLOCKS_;
  static constexpr int WARPS_N = BN / WN, THREADS = 32 * (BM / WM) * WARPS_N;
  static constexpr size_t SHARED = size_t(STAGES) * (BM + BN) * BK * sizeof(bfloat16);
  static_assert(BM % WM == 0 && BN % WN == 0, "a block is a whole number of warp tiles");
  static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp tile is whole mma tiles, and ldmatrix.x4 fetches two of N");
};

// What becomes of the products: stored as they are, or W is gate rows and then up rows and SiLU(gate) · up is stored.
enum class LinearEnd { kStore, kSwiglu };

// Where chunk `chunk` (8 columns) of row `row` of a tile lies, in elements.
__device__ __forceinline__ int swizzled(int row, int chunk) { return row * 64 + (chunk ^ (row % 8)) * 8; }

// Fills a tile of ROWS × 64: row r of it is row row_of(r) of `matrix`, columns k0 …, zeros from K on.
template <int ROWS, int THREADS, bool VECTOR, class RowOf>
struct LinearTileCopy {
  static constexpr int kStep = THREADS / 8, kCopies = ROWS / kStep;
  static_assert(THREADS % 64 == 0 && ROWS % kStep == 0, "every thread copies the same chunk of some rows");
  RowOf row_of;
  int K;
  uint32_t from[kCopies];  // in chunks, from the start of the matrix

  __device__ __forceinline__ LinearTileCopy(RowOf row_of_, int K_) : row_of(row_of_), K(K_) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i)
      from[i] = VECTOR ? uint32_t(int64_t(row_of(threadIdx.x / 8 + i * kStep)) * K / 8 + threadIdx.x % 8) : 0;
  }
  __device__ __forceinline__ void operator()(bfloat16* tile, const bfloat16* matrix, int k0) const {
    if constexpr (VECTOR) {
      const bool valid = k0 + 8 * int(threadIdx.x % 8) < K;
      bfloat16* to = tile + swizzled(threadIdx.x / 8, threadIdx.x % 8);  // the same place in each group of 8 rows
#pragma unroll
      for (int i = 0; i < kCopies; ++i) cp_async_16(to + i * kStep * 64, matrix + k0 + size_t(from[i]) * 8, valid);
    } else {
      for (int i = threadIdx.x; i < ROWS * 64; i += THREADS) {
        const int row = i / 64, k = i % 64;
        tile[swizzled(row, k / 8) + k % 8] =
            k0 + k < K ? matrix[int64_t(row_of(row)) * K + k0 + k] : __float2bfloat16(0.f);
      }
    }
  }
};
template <int ROWS, int THREADS, bool VECTOR, class RowOf>
__device__ __forceinline__ LinearTileCopy<ROWS, THREADS, VECTOR, RowOf> linear_tile_copy(RowOf row_of, int K) {
  return {row_of, K};
}

// Rows of a block's products in shared memory, in floats: 8 more than there are columns, so that the 4 rows that half a
// warp writes at once meet all 32 banks.
__host__ __device__ constexpr int product_pitch(int columns) { return columns + 8; }

// Stores a block's products [BM][product_pitch(BN)], or what END makes of them, to row0 …, col0 … of y [p.M, p.N]: 16
// bytes a store where rows of y allow it.
template <int BM, int BN, int THREADS, LinearEnd END, class Out>
__device__ __forceinline__ void store_block(const LinearArguments<Out>& p, const float* products, int row0, int col0) {
  constexpr bool SWIGLU = END == LinearEnd::kSwiglu;
  constexpr int WIDE = 16 / sizeof(Out), CHUNKS = (SWIGLU ? BN / 2 : BN) / WIDE;
  static_assert(!SWIGLU || WIDE == 8, "gate and up alternate in eights");
  const bool wide = p.N % WIDE == 0 && reinterpret_cast<uintptr_t>(p.y) % 16 == 0;
#pragma unroll 2
  for (int i = threadIdx.x; i < BM * CHUNKS; i += THREADS) {
    const int row = row0 + i / CHUNKS, col = col0 + i % CHUNKS * WIDE;
    if (row >= p.M || col >= p.N) continue;
    Out* to = p.y + int64_t(row) * p.N + col;
    const float* from = products + i / CHUNKS * product_pitch(BN) + i % CHUNKS * WIDE * (SWIGLU ? 2 : 1);
    float v[WIDE];
#pragma unroll
    for (int j = 0; j < WIDE; j += 4) {
      const float4 a = load_vec<float4>(from + j);
      v[j] = a.x, v[j + 1] = a.y, v[j + 2] = a.z, v[j + 3] = a.w;
      if constexpr (SWIGLU) {
        const float4 up = load_vec<float4>(from + 8 + j);
        v[j] = silu(round_bf16(a.x)) * round_bf16(up.x), v[j + 1] = silu(round_bf16(a.y)) * round_bf16(up.y);
        v[j + 2] = silu(round_bf16(a.z)) * round_bf16(up.z), v[j + 3] = silu(round_bf16(a.w)) * round_bf16(up.w);
      }
    }
    if (p.bias)
#pragma unroll
      for (int j = 0; j < WIDE; ++j)
        if (col + j < p.N) v[j] += __bfloat162float(p.bias[col + j]);
    if (!wide) {
#pragma unroll
      for (int j = 0; j < WIDE; ++j)
        if (col + j < p.N) {
          if constexpr (sizeof(Out) == 2)
            to[j] = __float2bfloat16(v[j]);
          else
            to[j] = p.add ? to[j] + v[j] : v[j];
        }
    } else if constexpr (sizeof(Out) == 2) {
      store_vec(to,
                make_uint4(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])));
    } else {
      const float4 old = p.add ? load_vec<float4>(to) : make_float4(0.f, 0.f, 0.f, 0.f);
      store_vec(to, make_float4(old.x + v[0], old.y + v[1], old.z + v[2], old.w + v[3]));
    }
  }
}

// [linear_mma]
template <class Tile, class Out, bool VECTOR, LinearEnd END>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS) linear_mma_kernel(LinearArguments<Out> p) {
  constexpr int BM = Tile::BM, BN = Tile::BN, BK = Tile::BK, WM = Tile::WM, WN = Tile::WN, STAGES = Tile::STAGES;
  constexpr int STEPS = BK / 16, X_TILE = BM * BK, W_TILE = BN * BK;
  pdl_launch_dependents();
  bfloat16* x_tiles = dynamic_shared<bfloat16>();
  bfloat16* w_tiles = x_tiles + STAGES * X_TILE;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp / Tile::WARPS_N * WM, warp_n = warp % Tile::WARPS_N * WN;
  const int2 block = block_in_bands(ceil_div(p.M, BM), ceil_div(p.N, BN));
  const int row0 = block.x * BM, col0 = block.y * BN, all = ceil_div(p.K, BK);
  const int begin = int(int64_t(all) * blockIdx.y / gridDim.y);  // this piece of K, in tiles
  const int tiles = int(int64_t(all) * (blockIdx.y + 1) / gridDim.y) - begin;

  const auto copy_x = linear_tile_copy<BM, Tile::THREADS, VECTOR>([=](int r) { return min(row0 + r, p.M - 1); }, p.K);
  const auto copy_w = linear_tile_copy<BN, Tile::THREADS, VECTOR>(
      [=](int r) {
        if (END == LinearEnd::kStore) return min(col0 + r, p.N - 1);
        // 8 rows of gate, the 8 rows of up that belong to them, and so on: both meet in one thread's accumulators
        return min(col0 / 2 + r / 16 * 8 + r % 8, p.N / 2 - 1) + r / 8 % 2 * (p.N / 2);
      },
      p.K);
  for (int t = 0; t < STAGES - 1 && t < tiles; ++t) copy_w(w_tiles + t * W_TILE, p.W, (begin + t) * BK);
  pdl_wait();
  for (int t = 0; t < STAGES - 1; ++t) {
    if (t < tiles) copy_x(x_tiles + t * X_TILE, p.x, (begin + t) * BK);
    cp_async_commit();  // empty at the end, so that the count of groups in flight stays the same
  }

  // Step s of a tile lies 2s chunks to the right; the swizzle makes that an exclusive or.
  const int at_x = swizzled(warp_m + lane % 16, lane / 16);  // lanes 0–15: the left 8 columns, 16–31: the right 8
  const int at_w = swizzled(warp_n + lane / 16 * 8 + lane % 8, lane / 8 % 2);  // lanes 0–7, 8–15: left, right; then
  uint32_t a[2][WM / 16][4], b[2][WN / 16][4];                                 // the next 8 rows
  const auto load = [&](int slot, int stage, int step) {
#pragma unroll
    for (int i = 0; i < WM / 16; ++i)
      ldmatrix_x4(a[slot][i], x_tiles + stage * X_TILE + (at_x ^ (16 * step)) + 16 * 64 * i);
#pragma unroll
    for (int j = 0; j < WN / 16; ++j)
      ldmatrix_x4(b[slot][j], w_tiles + stage * W_TILE + (at_w ^ (16 * step)) + 16 * 64 * j);
  };

  cp_async_wait<STAGES - 2>();
  __syncthreads();
  load(0, 0, 0);
  float c[WM / 16][WN / 8][4] = {};
  int stage = 0, free_stage = STAGES - 1;  // where tile t lies; where tile t + STAGES − 1 goes
  for (int t = 0; t < tiles; ++t) {
    const int next_stage = stage + 1 == STAGES ? 0 : stage + 1;
    const bool fetch = t + STAGES - 1 < tiles;
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      if (step + 1 < STEPS) {
        load((step + 1) % 2, stage, step + 1);
      } else {
        cp_async_wait<STAGES - 2>();
        __syncthreads();  // tile t + 1 is whole, and all have read the last of tile t: its place is free
        if (t + 1 < tiles) load(0, next_stage, 0);
      }
      if (step == 0 && fetch) copy_x(x_tiles + free_stage * X_TILE, p.x, (begin + t + STAGES - 1) * BK);
      if (step == 1) {
        if (fetch) copy_w(w_tiles + free_stage * W_TILE, p.W, (begin + t + STAGES - 1) * BK);
        cp_async_commit();
      }
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
          mma_m16n8k16_bf16(c[i][j], a[step % 2][i],
                            {b[step % 2][j / 2][j % 2 * 2], b[step % 2][j / 2][j % 2 * 2 + 1]});
    }
    free_stage = stage;
    stage = next_stage;
  }

  // By way of shared memory, which nobody reads any more: from there y is written in whole rows, by a loop. Straight from
  // the registers it would be thousands of instructions that run once.
  constexpr int PITCH = product_pitch(BN);
  static_assert(sizeof(float) * BM * PITCH <= Tile::SHARED, "the products take the place of the tiles");
  float* products = dynamic_shared<float>();
#pragma unroll
  for (int i = 0; i < WM / 16; ++i)
#pragma unroll
    for (int j = 0; j < WN / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        store_vec(products + (warp_m + 16 * i + 8 * half + lane / 4) * PITCH + warp_n + 8 * j + lane % 4 * 2,
                  make_float2(c[i][j][2 * half], c[i][j][2 * half + 1]));
  __syncthreads();
  p.y += int64_t(blockIdx.y) * p.M * p.N;
  constexpr int SHARE = END == LinearEnd::kSwiglu ? 2 : 1;  // columns of W an output is made of
  p.N /= SHARE;
  store_block<BM, BN, Tile::THREADS, END>(p, products, row0, col0 / SHARE);
}
// [/linear_mma]
