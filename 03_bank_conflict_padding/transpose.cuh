// 03 · the transpose: the kernel that cannot avoid a column access
//
// Out[c][r] = In[r][c]. Whoever reads rows has to write columns; a tile in shared memory lets both global accesses run
// along rows, and moves the column access into shared memory, where only the banks matter.
// Predict: naive: 32 lanes write into 32 different rows of Out, 32 sectors for 128 useful bytes. Tiled: 4 sectors each
//          way, but the read of a column of a 32-float-wide tile costs 32 wavefronts. Padded or swizzled: 1.
// Run: make step03     Look closer: make lab03 · make profile03
#pragma once
#include <type_traits>

#include "03_bank_conflict_padding/tile_layout.hpp"
#include "common/launch.hpp"

template <class Out, class In>
__device__ __forceinline__ Out converted(In value) {
  if constexpr (std::is_same_v<In, Out>)
    return value;
  else if constexpr (std::is_same_v<Out, float>)
    return __bfloat162float(value);
  else
    return __float2bfloat16(value);
}

constexpr int kTransposeRows = 8;  // a block has 32 × 8 threads

// One tile a block; tiles are numbered along x alone, because a grid's y ends at 65 535.
inline unsigned transpose_blocks(int rows, int cols, int tile) {
  return static_cast<unsigned>(ceil_div(cols, tile)) * static_cast<unsigned>(ceil_div(rows, tile));
}

// [naive]
// Reads along rows and writes along columns.
template <class In, class Out>
__global__ void transpose_naive_kernel(const In* in,  // [rows, cols]
                                       Out* out,      // [cols, rows]
                                       int rows, int cols) {
  const int tiles = ceil_div(cols, 32);
  const int col = blockIdx.x % tiles * 32 + threadIdx.x, row0 = blockIdx.x / tiles * 32;
  for (int r = threadIdx.y; r < 32; r += kTransposeRows)
    if (row0 + r < rows && col < cols)
      out[size_t(col) * rows + row0 + r] = converted<Out>(in[size_t(row0 + r) * cols + col]);
}
// [/naive]

// [tiled]
// Through a TILE × TILE tile in shared memory; Layout says where an element of it lies.
template <class In, class Out, int TILE, class Layout>
__global__ void transpose_tiled_kernel(const In* in,  // [rows, cols]
                                       Out* out,      // [cols, rows]
                                       int rows, int cols) {
  static_assert(TILE % 32 == 0, "a warp moves 32 neighbours at a time");
  __shared__ Out tile[Layout::kSize];
  const int tiles = ceil_div(cols, TILE), tx = threadIdx.x, ty = threadIdx.y;
  const int col0 = blockIdx.x % tiles * TILE, row0 = blockIdx.x / tiles * TILE;
  // trip counts are known to the compiler: it unrolls, and all loads of a thread are under way before the first store
#pragma unroll
  for (int r = ty, i = 0; i < TILE / kTransposeRows; ++i, r += kTransposeRows)
#pragma unroll
    for (int c = tx, j = 0; j < TILE / 32; ++j, c += 32)
      if (row0 + r < rows && col0 + c < cols)
        tile[Layout::at(r, c)] = converted<Out>(in[size_t(row0 + r) * cols + col0 + c]);
  __syncthreads();  // the tile is whole before anyone reads what others wrote
#pragma unroll
  for (int c = ty, i = 0; i < TILE / kTransposeRows; ++i, c += kTransposeRows)
#pragma unroll
    for (int r = tx, j = 0; j < TILE / 32; ++j, r += 32)
      if (row0 + r < rows && col0 + c < cols) out[size_t(col0 + c) * rows + row0 + r] = tile[Layout::at(r, c)];
}
// [/tiled]

template <class In, class Out>
void transpose_naive(Stream& stream, const In* in, Out* out, int rows, int cols) {
  launch(transpose_naive_kernel<In, Out>, dim3(transpose_blocks(rows, cols, 32)), dim3(32, kTransposeRows), on(stream),
         in, out, rows, cols);
}

template <int TILE, class Layout, class In, class Out>
void transpose_through(Stream& stream, const In* in, Out* out, int rows, int cols) {
  launch(transpose_tiled_kernel<In, Out, TILE, Layout>, dim3(transpose_blocks(rows, cols, TILE)),
         dim3(32, kTransposeRows), on(stream), in, out, rows, cols);
}

template <class In, class Out>
void transpose_conflicted(Stream& stream, const In* in, Out* out, int rows, int cols) {
  transpose_through<32, Plain<32, 32>>(stream, in, out, rows, cols);
}
template <class In, class Out>
void transpose_padded(Stream& stream, const In* in, Out* out, int rows, int cols) {
  transpose_through<32, Padded<32, 32, 1>>(stream, in, out, rows, cols);
}
template <class In, class Out>
void transpose_swizzled(Stream& stream, const In* in, Out* out, int rows, int cols) {
  transpose_through<32, Swizzled<32, 32, 1>>(stream, in, out, rows, cols);
}
template <class In, class Out>
void transpose_padded_64(Stream& stream, const In* in, Out* out, int rows, int cols) {
  transpose_through<64, Padded<64, 64, 1>>(stream, in, out, rows, cols);
}

// The best form: enqueues Out[c][r] = In[r][c] for any rows, cols ≥ 1. In and Out are float or bfloat16; a change of
// type rounds to nearest even. In and out must not overlap.
template <class In, class Out>
void transpose(Stream& stream, const In* in,  // [rows, cols]
               Out* out,                      // [cols, rows]
               int rows, int cols) {
  transpose_padded_64(stream, in, out, rows, cols);
}
