// 06 · the tiles of the CUDA-core kernel, and the product that both halves of attention are made of
//
// Scores are q·kᵀ, the output is weights·v: two products of a tile with a tile, each as in step 04's warp tile. For each k
// a lane reads one column piece of the left tile and one row piece of the right, so the left one lies k-major in shared
// memory: q and k as [head dim][row], weights as [key][row]. All tiles are float, whatever the inputs are.
#pragma once
#include "06_fused_attention/tile_copy.cuh"

// Sizes of one form of the kernel. A warp owns 4·RT whole rows of queries: 4 lanes down, 8 lanes across; RT rows and
// KEYS/8 scores a lane.
template <int D, int RT, int KEYS, int WARPS>
struct SimtTile {
  static constexpr int kThreads = 32 * WARPS, kWarpRows = 4 * RT, kRows = WARPS * kWarpRows;
  static constexpr int kScores = KEYS / 8, kColumns = D / 8;  // of one row that a lane holds: scores, and output
  static constexpr int kPitchQ = kRows + 4,
                       kPitchK = KEYS + 4;  // 4 spare floats spread the transposing copies (step 03)
  static constexpr int kPieceKeys =
      KEYS < 32 ? KEYS : 32;  // weights pass through shared memory in pieces of as many keys
  static constexpr int kPitchWeights = kWarpRows + 4;
  static constexpr size_t kSharedBytes =
      sizeof(float) * (D * (kPitchQ + kPitchK) + KEYS * D + WARPS * kPieceKeys * kPitchWeights);
  static_assert(RT % 4 == 0 && D % 32 == 0, "a lane reads rows of q and columns of v as float4");
  static_assert(KEYS % kPieceKeys == 0 && KEYS % 8 == 0, "8 lanes share the keys of a tile evenly");
};

// Which of `8·COUNT` rows or columns belong to lane x of 8, and of `4·COUNT` to lane y of 4: groups of up to four.
template <int COUNT, int LANES>
struct Share {
  static constexpr int kWidth = COUNT < 4 ? COUNT : 4, kGroup = kWidth * LANES;
  static __device__ __forceinline__ int index(int lane, int i) {
    return kWidth * lane + i % kWidth + i / kWidth * kGroup;
  }
  static __device__ __forceinline__ void read(float (&to)[COUNT], const float* from, int lane) {
#pragma unroll
    for (int g = 0; g < COUNT; g += kWidth) {
      if constexpr (kWidth == 4) {
        const float4 v = load_vec<float4>(from + index(lane, g));
        to[g] = v.x, to[g + 1] = v.y, to[g + 2] = v.z, to[g + 3] = v.w;
      } else {
        for (int e = 0; e < kWidth; ++e) to[g + e] = from[index(lane, g + e)];
      }
    }
  }
};

// [product]
// sum[i][j] += left[k][row i] · right[k][column j] for k = 0 … STEPS − 1. The operands of the next k are read while those
// of this k are multiplied; forth and back over i, so that two neighbouring FMAs share an operand (step 04, register banks).
template <int STEPS, int M, int N>
__device__ __forceinline__ void add_product(float (&sum)[M][N], const float* left, int left_pitch, int y,
                                            const float* right, int right_pitch, int x) {
  static_assert(STEPS % 2 == 0, "the two operand buffers take turns");
  float a[2][M], b[2][N];
  Share<M, 4>::read(a[0], left, y);
  Share<N, 8>::read(b[0], right, x);
#pragma unroll 1  // more would let the sums wander between registers, into banks that conflict
  for (int k0 = 0; k0 < STEPS; k0 += 2)
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      left += left_pitch;
      right += right_pitch;
      if (k == 0 || k0 + 2 < STEPS) {
        Share<M, 4>::read(a[1 - k], left, y);
        Share<N, 8>::read(b[1 - k], right, x);
      }
#pragma unroll
      for (int j = 0; j < N; ++j)
#pragma unroll
        for (int step = 0; step < M; ++step) {
          const int i = j % 2 ? M - 1 - step : step;
          sum[i][j] += a[k][i] * b[k][j];
        }
    }
}
// [/product]

// Rows first … first + ROWS − 1 of `global` (row 0 begins at global + start) into tile[D][PITCH], transposed; rows from
// `rows` on become zeros. Every thread of the block has to call it; floats come by cp.async, and the caller commits.
template <int ROWS, int D, int THREADS, int PITCH>
__device__ __forceinline__ void copy_transposed(float* tile, const float* global, int64_t start, int64_t row_stride,
                                                int first, int rows) {
  constexpr int kRowsAtOnce = THREADS / 8;  // eight neighbouring threads copy eight neighbouring floats: one sector
  static_assert(ROWS % kRowsAtOnce == 0 && D % 8 == 0, "every thread copies as much");
  const int row0 = threadIdx.x / 8, d0 = threadIdx.x % 8;
  const float* from = global + (start + (first + row0) * row_stride + d0);
#pragma unroll
  for (int i = 0; i < ROWS / kRowsAtOnce; ++i, from += kRowsAtOnce * row_stride)
#pragma unroll
    for (int d = 0; d < D; d += 8)
      cp_async_4(tile + (d0 + d) * PITCH + row0 + i * kRowsAtOnce, from + d, first + row0 + i * kRowsAtOnce < rows);
}

// Eight neighbouring bfloat16 of one row as floats; zeros where the row does not exist.
__device__ __forceinline__ void load_8(float (&to)[8], const bfloat16* from, bool valid) {
  const uint4 v = valid ? load_vec<uint4>(from) : make_uint4(0, 0, 0, 0);
  const uint32_t pairs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = unpack_bf16(pairs[i]);
    to[2 * i] = pair.x, to[2 * i + 1] = pair.y;
  }
}
template <int ROWS, int D, int THREADS, int PITCH>
__device__ __forceinline__ void copy_transposed(float* tile, const bfloat16* global, int64_t start, int64_t row_stride,
                                                int first, int rows) {
  for (int i = threadIdx.x; i < ROWS * (D / 8); i += THREADS) {  // neighbouring threads: neighbouring rows, and banks
    const int row = i % ROWS, d = i / ROWS * 8;
    float v[8];
    load_8(v, global + (start + (first + row) * row_stride + d), first + row < rows);
    for (int e = 0; e < 8; ++e) tile[(d + e) * PITCH + row] = v[e];
  }
}

// The same rows into tile[ROWS][D].
template <int ROWS, int D, int THREADS>
__device__ __forceinline__ void copy_rows(float* tile, const float* global, int64_t start, int64_t row_stride,
                                          int first, int rows) {
  copy_tile<ROWS, D, THREADS, PackedRows<float, D>>(tile, global, start, row_stride, first, rows);
}
template <int ROWS, int D, int THREADS>
__device__ __forceinline__ void copy_rows(float* tile, const bfloat16* global, int64_t start, int64_t row_stride,
                                          int first, int rows) {
  for (int i = threadIdx.x; i < ROWS * (D / 8); i += THREADS) {
    const int row = i / (D / 8), d = i % (D / 8) * 8;
    float v[8];
    load_8(v, global + (start + (first + row) * row_stride + d), first + row < rows);
    store_vec(tile + row * D + d, make_float4(v[0], v[1], v[2], v[3]));
    store_vec(tile + row * D + d + 4, make_float4(v[4], v[5], v[6], v[7]));
  }
}
