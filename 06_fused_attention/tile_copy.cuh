// 06 · a tile of rows from global to shared memory, 16 bytes a copy, asynchronously; and the two layouts it takes there.
#pragma once
#include "common/launch.hpp"

// Rows one after another; for tiles that are read row by row.
template <class T, int D>
struct PackedRows {
  static constexpr int kChunk = 16 / sizeof(T), kPitch = D, kPeriod = 1;
  static __device__ __forceinline__ int at(int row, int chunk) { return row * kPitch + chunk * kChunk; }
};

// [swizzle]
// Without a byte of padding: chunk c (8 values, 16 bytes) of row r lies in place c ^ (r mod 8) of its 8 neighbours. The
// 8 rows that an 8×8 matrix takes its chunks from lie in 8 different groups of banks. Repeats every kPeriod rows.
template <int D>
struct SwizzledRows {
  static_assert(D % 64 == 0, "a row is a whole number of 8 chunks, the span of the swizzle");
  static constexpr int kChunk = 8, kPitch = D, kPeriod = 8;
  static __device__ __forceinline__ int at(unsigned row, unsigned chunk) {
    return row * D + chunk / 8 * 64 + ((chunk ^ row) % 8) * 8;
  }
};
// [/swizzle]

// Copies rows [first, first + ROWS) of D elements; row 0 begins at global + start. Rows from `rows` on are filled with zeros. Every thread of the block
// has to call it; the caller commits.
template <int ROWS, int D, int THREADS, class Layout, class T>
__device__ __forceinline__ void copy_tile(T* tile, const T* global, int64_t start, int64_t row_stride, int first,
                                          int rows) {
  constexpr int kChunks = D / Layout::kChunk, kRowsAtOnce = THREADS / kChunks;
  constexpr int kPlaces = Layout::kPeriod <= kRowsAtOnce ? 1 : Layout::kPeriod / kRowsAtOnce;
  static_assert(THREADS % kChunks == 0 && ROWS % kRowsAtOnce == 0, "every thread moves the same chunk of some rows");
  // one pointer that walks, and no more addresses in shared memory than the layout has phases: few registers
  const int row0 = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
  const T* from = global + (start + (first + row0) * row_stride + chunk * Layout::kChunk);
  T* to[kPlaces];
#pragma unroll
  for (int i = 0; i < kPlaces; ++i) to[i] = tile + Layout::at(row0 + i * kRowsAtOnce, chunk);
  const int64_t step = kRowsAtOnce * row_stride;
#pragma unroll
  for (int i = 0; i < ROWS / kRowsAtOnce; ++i, from += step)
    cp_async_16(to[i % kPlaces] + i / kPlaces * (kPlaces * kRowsAtOnce * Layout::kPitch), from,
                first + row0 + i * kRowsAtOnce < rows);
}
