// 04 · a few rows of A: B is read once, from memory to registers, and everything else hides behind that
//
// Against the tiles: with M ≤ 16 rows an element of B is used M times, far less than the FLOP a byte that arithmetic needs
// to be the wall. No two threads want the same element of B, so only A goes through shared memory.
// Predict: the time of reading K·N floats. At 4 TB/s, N = K = 4096: 67 MB, 17 µs, whether M is 1 or 16. Little's law: 4 TB/s
//          × 0.7 µs = 2.8 MB on their way, 21 KB a multiprocessor of 132; 512 threads with 4 float4 each are 32 KB.
// Run: build/bin/step04 --shape 16x4096x4096
#pragma once
#include "04_vectorized_double_buffer/block_tile.cuh"
#include "common/gemm.hpp"
#include "common/launch.hpp"

struct SkinnyTile {
  static constexpr int kMostRows = 16;
  static constexpr int kDeep = 4, kPieces = 64, BK = kDeep * kPieces;  // K is shared out in pieces of four
  static constexpr int kMostLanes = 8;  // beside each other: 8 float4 = 128 bytes of a row of B
  static constexpr int kMostThreads = kPieces * kMostLanes;
};

// Four floats that are read once, or what exists of them: load_four past L1.
template <bool VECTOR>
__device__ __forceinline__ float4 stream_four(const float* from, int left) {
  if (!VECTOR) return load_four<false>(from, left);
  if (left <= 0) return make_float4(0, 0, 0, 0);
  const uint4 v = load_streaming(from);
  return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w));
}

__device__ __forceinline__ void add_scaled(float (&sum)[4], float a, float4 b) {
  sum[0] += a * b.x, sum[1] += a * b.y, sum[2] += a * b.z, sum[3] += a * b.w;
}

// Starts the copies of columns k0 … k0 + BK of A; what does not exist becomes zero.
template <int ROWS, bool VECTOR>
__device__ __forceinline__ void copy_slab_of_A(float* slab,     // [ROWS, BK]
                                               const float* A,  // [M, K]
                                               int M, int K, int k0) {
  for (int four = threadIdx.x; four < ROWS * SkinnyTile::kPieces; four += blockDim.x) {
    const int row = four / SkinnyTile::kPieces, k = k0 + four % SkinnyTile::kPieces * 4;
    const float* from = A + size_t(row) * K + k;
    if (VECTOR)
      cp_async_16(slab + 4 * four, from, row < M && k < K);
    else
      for (int i = 0; i < 4; ++i) cp_async_4(slab + 4 * four + i, from + i, row < M && k + i < K);
  }
  cp_async_commit();
}

// [skinny]
// A block of 64 · lanes threads computes M ≤ ROWS rows of 4 · lanes columns.
template <int ROWS, bool VECTOR>
__global__ void __launch_bounds__(SkinnyTile::kMostThreads, 1) gemm_skinny_kernel(const float* A,  // [M, K]
                                                                                  const float* B,  // [K, N]
                                                                                  float* C,        // [M, N]
                                                                                  int M, int N, int K, int lanes) {
  using S = SkinnyTile;
  __shared__ __align__(16) float shared[2 * ROWS * S::BK];  // two slabs of A, at the end a sum for each warp
  static_assert(S::kMostThreads / 32 * 4 * S::kMostLanes <= 2 * S::BK, "the sums fit where the slabs were");
  const int t = threadIdx.x, x = t % lanes, my_k = t / lanes * S::kDeep;
  const int col = (blockIdx.x * lanes + x) * 4;

  float sum[ROWS][4] = {};
  float4 b[S::kDeep], next[S::kDeep];
  const auto load = [&](float4(&to)[S::kDeep], int k) {
#pragma unroll
    for (int i = 0; i < S::kDeep; ++i)
      to[i] = stream_four<VECTOR>(B + size_t(k + i) * N + col, (VECTOR ? k : k + i) < K ? N - col : 0);
  };
  float* slab = shared;
  copy_slab_of_A<ROWS, VECTOR>(slab, A, M, K, 0);
  load(b, my_k);
  for (int k0 = 0; k0 < K; k0 += S::BK) {
    cp_async_wait<0>();
    __syncthreads();  // this slab is whole, and all have read the one before it
    float* const other = slab == shared ? shared + ROWS * S::BK : shared;
    if (k0 + S::BK < K) {
      copy_slab_of_A<ROWS, VECTOR>(other, A, M, K, k0 + S::BK);
      load(next, k0 + S::BK + my_k);  // on its way during the arithmetic
    }
#pragma unroll
    for (int m = 0; m < ROWS; ++m) {
      const float4 a = load_vec<float4>(slab + m * S::BK + my_k);
      add_scaled(sum[m], a.x, b[0]);
      add_scaled(sum[m], a.y, b[1]);
      add_scaled(sum[m], a.z, b[2]);
      add_scaled(sum[m], a.w, b[3]);
    }
#pragma unroll
    for (int i = 0; i < S::kDeep; ++i) b[i] = next[i];
    slab = other;
  }

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

// M ≤ 16. lanes: 8 or 2, for columns in groups of 32 (a line of memory) or 8 (a sector).
inline void gemm_skinny_lanes(Stream& stream, const Gemm& p, int lanes) {
  const auto start = [&](auto kernel) {
    launch(kernel, dim3(ceil_div(p.N, 4 * lanes)), dim3(SkinnyTile::kPieces * lanes), on(stream), p.A, p.B, p.C, p.M,
           p.N, p.K, lanes);
  };
  const bool vector = all_rows_aligned(p);
  if (p.M == 1)
    start(vector ? gemm_skinny_kernel<1, true> : gemm_skinny_kernel<1, false>);
  else if (p.M <= 4)
    start(vector ? gemm_skinny_kernel<4, true> : gemm_skinny_kernel<4, false>);
  else
    start(vector ? gemm_skinny_kernel<16, true> : gemm_skinny_kernel<16, false>);
}

// Whole lines where they give at least every second multiprocessor a block, sectors where C is narrower than that.
inline int skinny_lanes(const Gemm& p, int multiprocessors) {
  return ceil_div(p.N, 4 * SkinnyTile::kMostLanes) >= ceil_div(multiprocessors, 2) ? SkinnyTile::kMostLanes : 2;
}
inline void gemm_skinny(Stream& stream, const Gemm& p) {
  gemm_skinny_lanes(stream, p, skinny_lanes(p, device().multiprocessors));
}
