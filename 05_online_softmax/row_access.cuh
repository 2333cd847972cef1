// How the kernels of this step walk along a row: 16 bytes at a time where the row allows it, with several independent
// loads under way before the first value is used.
#pragma once
#include <cmath>
#include <type_traits>

#include "common/launch.hpp"

constexpr int kBatch = 16;  // values a thread asks for before it uses the first one: 64 bytes in flight a thread

// One access of V floats.
template <int V>
__device__ __forceinline__ void load_pack(float (&to)[V], const float* from) {
  static_assert(V == 1 || V == 4, "a pack is one float or 16 bytes");
  if constexpr (V == 4) {
    const float4 v = load_vec<float4>(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  } else {
    to[0] = *from;
  }
}

// The same for a result that nobody reads soon: it is the first to leave the L2.
template <int V>
__device__ __forceinline__ void store_pack_streaming(float* to, const float (&v)[V]) {
  static_assert(V == 1 || V == 4, "a pack is one float or 16 bytes");
  if constexpr (V == 4)
    __stcs(reinterpret_cast<float4*>(to), make_float4(v[0], v[1], v[2], v[3]));
  else
    __stcs(to, v[0]);
}

// One pack from global to shared memory, asynchronously.
template <int V>
__device__ __forceinline__ void copy_pack_async(float* shared, const float* global) {
  if constexpr (V == 4)
    cp_async_16(shared, global);
  else
    cp_async_4(shared, global);
}

// A batch of row[.., end): values[p] is the pack at first + p·THREADS·V; a pack that lies behind `end` holds −inf.
template <int V, int THREADS>
__device__ __forceinline__ void load_batch(float (&values)[kBatch / V][V], const float* row, unsigned first,
                                           unsigned end) {
#pragma unroll
  for (int p = 0; p < kBatch / V; ++p) {
    const unsigned at = first + p * THREADS * V;
    if (at < end) {
      load_pack<V>(values[p], row + at);
    } else {
      for (int i = 0; i < V; ++i) values[p][i] = -INFINITY;
    }
  }
}

// Calls f(first, batch at first) for this thread's share of row[begin, end); begin and end are multiples of V. No thread
// touches the share of another.
template <int V, int THREADS, class F>
__device__ __forceinline__ void for_batches(const float* row, unsigned begin, unsigned end, F f) {
  for (unsigned first = begin + threadIdx.x * V; first < end; first += kBatch * THREADS) {
    float values[kBatch / V][V];
    load_batch<V, THREADS>(values, row, first, end);
    f(first, values);
  }
}

// Writes a batch back to where load_batch found it, each value v as value(v).
template <int V, int THREADS, class F>
__device__ __forceinline__ void store_batch(float* row, unsigned first, unsigned end,
                                            const float (&values)[kBatch / V][V], F value) {
#pragma unroll
  for (int p = 0; p < kBatch / V; ++p) {
    const unsigned at = first + p * THREADS * V;
    if (at >= end) break;
    float out[V];
    for (int i = 0; i < V; ++i) out[i] = value(values[p][i]);
    store_pack_streaming<V>(row + at, out);
  }
}

// Host: calls f(integral_constant<int, V>) with V = 4 where every row of x and y starts at a multiple of 16 bytes and
// has a whole number of packs, else with V = 1.
template <class F>
void with_pack_width(const float* x, const float* y, int cols, F f) {
  const auto aligned = [](const float* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  if (cols % 4 == 0 && aligned(x) && aligned(y))
    f(std::integral_constant<int, 4>{});
  else
    f(std::integral_constant<int, 1>{});
}

// Host: a grid holds 2^31 − 1 blocks in x. Calls f(first row, rows) once, or more often for more rows than that.
template <class F>
void for_row_slabs(int64_t rows, F f) {
  constexpr int64_t most = int64_t(1) << 30;
  for (int64_t first = 0; first < rows; first += most) f(first, rows - first < most ? rows - first : most);
}
