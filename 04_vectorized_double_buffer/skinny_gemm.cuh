// 04 · a few rows of A: B is read once, and everything else hides behind that
//
// Against the tiles: with M ≤ 16 rows an element of B is used M times, far less than the FLOP a byte that arithmetic needs
// to be the wall. What counts is that the reads never pause.
// Predict: the time of reading K·N floats. At 4 TB/s, N = K = 4096: 67 MB, 17 µs, whether M is 1 or 16. Little's law: 4 TB/s
//          × 0.8 µs = 3.2 MB on their way, 24 KB a multiprocessor of 132, at every moment. 512 threads with two float4 a
//          slab and three slabs on their way are 48 KB. Loads into registers would do as well, if the wait for the oldest
//          were not a wait for all: nvcc gives them one scoreboard. Groups of cp.async arrive in order, and can be waited
//          for one at a time.
// Run: build/bin/step04 --shape 16x4096x4096
#pragma once
#include "04_vectorized_double_buffer/block_tile.cuh"
#include "common/gemm.hpp"
#include "common/launch.hpp"

struct SkinnyTile {
  static constexpr int kMostRows = 16;
  static constexpr int kDeep = 2, kPieces = 64, BK = kDeep * kPieces;  // a slab of K, shared out in pieces of two
  static constexpr int kMostLanes = 8;  // beside each other: 8 float4 = 128 bytes of a row of B
  static constexpr int kMostThreads = kPieces * kMostLanes;
  static constexpr int kStages = 4, kFewStages = 2;  // slabs in shared memory; the few where a block gets only 64 KB
  // Floats of one slab: of A [rows, BK], then of B [kDeep, threads, 4].
  static __host__ __device__ constexpr int slab(int rows, int threads) { return rows * BK + kDeep * threads * 4; }
};

__device__ __forceinline__ void add_scaled(float (&sum)[4], float a, float4 b) {
  sum[0] += a * b.x, sum[1] += a * b.y, sum[2] += a * b.z, sum[3] += a * b.w;
}

// Starts the copy of four floats, of which the first `left` exist; the others become zero.
template <bool VECTOR>
__device__ __forceinline__ void copy_four(float* to, const float* from, int left) {
  if (VECTOR)
    cp_async_16(to, from, left > 0);
  else
#pragma unroll
    for (int i = 0; i < 4; ++i) cp_async_4(to + i, from + i, i < left);
}

// [skinny]
// A block of 64 · lanes threads computes M ≤ ROWS rows of 4 · lanes columns.
template <int ROWS, bool VECTOR>
__global__ void __launch_bounds__(SkinnyTile::kMostThreads, 1)
    gemm_skinny_kernel(const float* A,  // [M, K]
                       const float* B,  // [K, N]
                       float* C,        // [M, N]
                       int M, int N, int K, int lanes, int stages) {
  using S = SkinnyTile;
  float* const shared = dynamic_shared<float>();  // a ring of slabs, at the end a sum for each warp
  static_assert(S::kMostThreads / 32 * 4 * S::kMostLanes * ROWS <= S::kFewStages * S::slab(ROWS, S::kMostThreads),
                "the sums fit where the slabs were");
  const int t = threadIdx.x, threads = blockDim.x, x = t % lanes, my_k = t / lanes * S::kDeep;
  const int col = (blockIdx.x * lanes + x) * 4, slab_size = S::slab(ROWS, threads);

  // [ring]
  // Starts the copies of slab k0: A for all, and of B what this thread will read itself.
  const auto start = [&](int k0, float* slab) {
    if (k0 < K) {
#pragma unroll
      for (int i = 0; i < S::kDeep; ++i) {
        const int k = k0 + my_k + i;
        copy_four<VECTOR>(slab + ROWS * S::BK + (i * threads + t) * 4, B + size_t(k) * N + col, k < K ? N - col : 0);
      }
      for (int four = t; four < ROWS * S::BK / 4; four += threads) {
        const int row = four / (S::BK / 4), k = k0 + four % (S::BK / 4) * 4;
        copy_four<VECTOR>(slab + 4 * four, A + size_t(row) * K + k, row < M ? K - k : 0);
      }
    }
    cp_async_commit();  // a group for each slab, if only an empty one: groups are counted
  };
  float sum[ROWS][4] = {};
  for (int i = 0; i < stages - 1; ++i) start(i * S::BK, shared + i * slab_size);
  int here = 0, before = stages - 1;
  for (int k0 = 0; k0 < K; k0 += S::BK) {
    if (stages == S::kStages)
      cp_async_wait<S::kStages - 2>();  // the oldest slab has arrived, the others are on their way
    else
      cp_async_wait<S::kFewStages - 2>();
    __syncthreads();  // … for all threads, and all have read the slab before it
    start(k0 + (stages - 1) * S::BK, shared + before * slab_size);
    const float* slab = shared + here * slab_size;
    float4 b[S::kDeep];
#pragma unroll
    for (int i = 0; i < S::kDeep; ++i) b[i] = load_vec<float4>(slab + ROWS * S::BK + (i * threads + t) * 4);
#pragma unroll
    for (int m = 0; m < ROWS; ++m) {
      const float2 a = load_vec<float2>(slab + m * S::BK + my_k);
      add_scaled(sum[m], a.x, b[0]);
      add_scaled(sum[m], a.y, b[1]);
    }
    before = here;
    here = here + 1 == stages ? 0 : here + 1;
  }
  cp_async_wait<0>();  // of empty groups
  // [/ring]

  const int cols = 4 * lanes, warps = blockDim.x / 32;
  __syncthreads();  // all have read the last slab
#pragma unroll
  for (int m = 0; m < ROWS; ++m) {  // the pieces of a warp, by shuffles
    for (int distance = lanes; distance < 32; distance *= 2)
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[m][j] += __shfl_xor_sync(0xffffffffu, sum[m][j], distance);
    if (t % 32 < lanes)
      store_vec(shared + (t / 32 * ROWS + m) * cols + 4 * x,  // pairs swapped: register banks, see warp_tile_gemm.cuh
                make_float4(sum[m][1], sum[m][0], sum[m][3], sum[m][2]));
  }
  __syncthreads();
  for (int o = t; o < ROWS * cols; o += blockDim.x) {  // and those of the warps, always in the same order
    float total = 0.f;
    for (int w = 0; w < warps; ++w) total += shared[w * ROWS * cols + (o ^ 1)];
    const int row = o / cols, c = blockIdx.x * cols + o % cols;
    if (row < M && c < N) C[size_t(row) * N + c] = total;
  }
}
// [/skinny]

// M ≤ 16. lanes: 8 or 2, for columns in groups of 32 (a line of memory) or 8 (a sector). stages: kStages or kFewStages.
inline void gemm_skinny_lanes(Stream& stream, const Gemm& p, int lanes, int stages = SkinnyTile::kStages) {
  const int threads = SkinnyTile::kPieces * lanes;
  const auto start = [&](auto kernel, int rows) {
    const auto bytes = [&] { return sizeof(float) * size_t(stages) * SkinnyTile::slab(rows, threads); };
    if (bytes() > device().shared_bytes_per_block) stages = SkinnyTile::kFewStages;
    launch(kernel, dim3(ceil_div(p.N, 4 * lanes)), dim3(threads), on(stream).smem(bytes()), p.A, p.B, p.C, p.M, p.N,
           p.K, lanes, stages);
  };
  const bool vector = all_rows_aligned(p);
  if (p.M == 1)
    start(vector ? gemm_skinny_kernel<1, true> : gemm_skinny_kernel<1, false>, 1);
  else if (p.M <= 4)
    start(vector ? gemm_skinny_kernel<4, true> : gemm_skinny_kernel<4, false>, 4);
  else
    start(vector ? gemm_skinny_kernel<16, true> : gemm_skinny_kernel<16, false>, 16);
}

// Whole lines where they give at least every second multiprocessor a block, sectors where C is narrower than that.
inline int skinny_lanes(const Gemm& p, int multiprocessors) {
  return ceil_div(p.N, 4 * SkinnyTile::kMostLanes) >= ceil_div(multiprocessors, 2) ? SkinnyTile::kMostLanes : 2;
}
inline void gemm_skinny(Stream& stream, const Gemm& p) {
  gemm_skinny_lanes(stream, p, skinny_lanes(p, device().multiprocessors));
}
