// 04 · what the rungs before the warp tile share: a 128 × 128 × 8 block tile, 256 threads with 8 × 8 outputs each.
#pragma once
#include <string>
#include <type_traits>

#include "common/gemm.hpp"
#include "common/launch.hpp"

struct BlockTile {
  static constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8, kThreads = 256;
  static constexpr int kRowOfA = BM + 4;  // A lies k-major; rows of 132 keep float4 aligned and stores spread (step 03)
  static constexpr int kStage = BK * (kRowOfA + BN);  // floats of one tile of A and one of B
  static_assert(BM / TM * (BN / TN) == kThreads, "the threads' tiles cover the block's tile");
  static_assert(BM * BK == 4 * kThreads && BK * BN == 4 * kThreads, "every thread moves one float4 of A and one of B");
};

// Four floats from `from` on, of which the first `left` exist; the others become zero. VECTOR: one 16-byte load, for
// matrices whose rows start at multiples of 16 bytes and hold whole groups of four.
template <bool VECTOR>
__device__ __forceinline__ float4 load_four(const float* from, int left) {
  if (VECTOR) return left > 0 ? load_vec<float4>(from) : make_float4(0, 0, 0, 0);
  return make_float4(left > 0 ? from[0] : 0.f, left > 1 ? from[1] : 0.f, left > 2 ? from[2] : 0.f,
                     left > 3 ? from[3] : 0.f);
}
template <bool VECTOR>
__device__ __forceinline__ void store_four(float* to, float4 v, int left) {
  if (VECTOR) {
    if (left > 0) store_vec(to, v);
    return;
  }
  if (left > 0) to[0] = v.x;
  if (left > 1) to[1] = v.y;
  if (left > 2) to[2] = v.z;
  if (left > 3) to[3] = v.w;
}

// Which 8 of 128 rows or columns belong to thread p of 16, and how it reads them from a row of a tile.
struct EverySixteenth {
  static __device__ __forceinline__ int index(int p, int i) { return p + 16 * i; }
  static __device__ __forceinline__ void read(float (&to)[8], const float* row, int p) {
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = row[p + 16 * i];
  }
};
// [two groups of four]
// Two groups of four, 64 apart: eight neighbouring threads read 128 neighbouring bytes. One group of eight would put
// them 32 bytes apart, and every 16-byte read would conflict.
struct TwoGroupsOfFour {
  static __device__ __forceinline__ int index(int p, int i) { return 4 * p + i % 4 + i / 4 * 64; }
  static __device__ __forceinline__ void read(float (&to)[8], const float* row, int p) {
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      const float4 v = load_vec<float4>(row + 4 * p + 64 * g);
      to[4 * g] = v.x, to[4 * g + 1] = v.y, to[4 * g + 2] = v.z, to[4 * g + 3] = v.w;
    }
  }
};
// [/two groups of four]

// sum += a tile of A times a tile of B, for the outputs of thread (tx, ty).
template <class Owner>
__device__ __forceinline__ void multiply_tile(float (&sum)[8][8], const float* As,  // [BK, kRowOfA]
                                              const float* Bs,                      // [BK, BN]
                                              int tx, int ty) {
#pragma unroll
  for (int k = 0; k < BlockTile::BK; ++k) {
    float a[8], b[8];
    Owner::read(a, As + k * BlockTile::kRowOfA, ty);
    Owner::read(b, Bs + k * BlockTile::BN, tx);
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[i][j] += a[i] * b[j];
  }
}

// Writes the outputs of thread (tx, ty) of the block whose first element is (row0, col0).
template <class Owner, bool VECTOR>
__device__ __forceinline__ void write_tile(float* C,  // [M, N]
                                           const float (&sum)[8][8], int M, int N, int row0, int col0, int tx, int ty) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = row0 + Owner::index(ty, i);
    if (row >= M) continue;
    if constexpr (std::is_same_v<Owner, TwoGroupsOfFour>) {
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        const int col = col0 + Owner::index(tx, j);
        store_four<VECTOR>(C + size_t(row) * N + col,
                           make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]), N - col);
      }
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int col = col0 + Owner::index(tx, j);
        if (col < N) C[size_t(row) * N + col] = sum[i][j];
      }
    }
  }
}

inline bool at_16_bytes(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

// Rows of all three matrices start at multiples of 16 bytes and hold whole groups of four floats.
inline bool all_rows_aligned(const Gemm& p) {
  return p.K % 4 == 0 && p.N % 4 == 0 && at_16_bytes(p.A) && at_16_bytes(p.B) && at_16_bytes(p.C);
}
inline std::string vector_path(const Gemm& p) {
  return all_rows_aligned(p) ? "16-byte path" : "4-byte path: a row starts between multiples of 16 bytes";
}

// Starts `kernel` with one block of 256 threads for each 128 × 128 tile of C.
inline void launch_block_tiles(Stream& stream, const Gemm& p,
                               void (*kernel)(const float*, const float*, float*, int, int, int),
                               size_t shared_bytes = 0) {
  in_row_slabs(p, BlockTile::BM, [&](const Gemm& s, unsigned blocks) {
    launch(kernel, dim3(ceil_div(s.N, BlockTile::BN), blocks), dim3(BlockTile::kThreads), on(stream).smem(shared_bytes),
           s.A, s.B, s.C, s.M, s.N, s.K);
  });
}
