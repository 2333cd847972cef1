// 07 · the sinusoidal table of the first Transformer (Vaswani et al. 2017, arXiv:1706.03762, section 3.5)
//
//   PE[pos, 2i] = sin(pos / 10000^(2i/d)),  PE[pos, 2i + 1] = cos(the same)
//
// Predict: the table is only written: 4 bytes a value. At 4.3 TB/s a multiprocessor has to finish 8 values every
//          nanosecond, so the arithmetic behind a value decides whether memory is the limit: powf and sinf are some
//          dozens of instructions each, a value for each of them too many.
// Run: make step07     Look closer: make lab07 · make profile07
#pragma once
#include <cmath>
#include <vector>

#include "07_positional_encoding/angles.cuh"

constexpr double kSinusoidalBase = 10000;
constexpr int kTableThreads = 256;

// A grid over [positions, columns]: x walks the columns, y the positions, at most some blocks a multiprocessor, so that
// what a thread hoists out of its loop over positions is used many times.
inline dim3 table_grid(int positions, int column_threads) {
  const unsigned across = unsigned(ceil_div(column_threads, kTableThreads));
  const unsigned down = ceil_div(16u * unsigned(device().multiprocessors), across);
  return dim3(across, down < unsigned(positions) ? down : unsigned(positions));
}

// [pow]
// A thread a value, everything computed where it is needed.
inline __global__ void sinusoidal_pow_kernel(float* table,  // [positions, d]
                                             int positions, int d) {
  const int64_t at = int64_t(blockIdx.x) * kTableThreads + threadIdx.x;
  if (at >= int64_t(positions) * d) return;
  const int position = int(at / d), dimension = int(at % d);
  const int even = dimension / 2 * 2;
  const float angle = float(position) / powf(float(kSinusoidalBase), float(even) / float(d));
  table[at] = dimension % 2 == 0 ? sinf(angle) : cosf(angle);
}
// [/pow]

inline void sinusoidal_pow(Stream& stream,
                           float* table,  // device, [positions, d]
                           int positions, int d) {
  const int64_t blocks = ceil_div(int64_t(positions) * d, int64_t(kTableThreads));
  if (blocks > 0x7fffffff)
    throw BadInput("sinusoidal_pow: a thread a value needs more blocks than a grid holds: " + std::to_string(blocks));
  launch(sinusoidal_pow_kernel, dim3(unsigned(blocks)), dim3(kTableThreads), on(stream), table, positions, d);
}

// The frequencies of a table, computed once in double on the host: the div_term of the usual PyTorch code, and the same
// in turns as two floats.
struct SinusoidalFrequencies {
  DeviceBuffer<float> radians;         // [⌈d / 2⌉]
  DeviceBuffer<SplitFrequency> turns;  // [⌈d / 2⌉]
  explicit SinusoidalFrequencies(int d) {
    std::vector<float> r;
    std::vector<SplitFrequency> t;
    for (int i = 0; i < ceil_div(d, 2); ++i) {
      const double frequency = std::pow(kSinusoidalBase, -2.0 * i / d);
      r.push_back(float(frequency));
      t.push_back(split_frequency(frequency));
    }
    radians = DeviceBuffer<float>(r);
    turns = DeviceBuffer<SplitFrequency>(t);
  }
};

// Writes pair i of a row, the last one of an odd row without its cos.
__device__ __forceinline__ void store_pair(float* row, int i, int d, float2 sin_cos) {
  row[2 * i] = sin_cos.x;
  if (2 * i + 1 < d) row[2 * i + 1] = sin_cos.y;
}

// [hoisted]
// The power moved out of the loop: a thread loads one frequency, walks down the positions, and writes sin and cos of an
// angle together. The angle is a float, as in the usual PyTorch code.
inline __global__ void sinusoidal_hoisted_kernel(float* table,          // [positions, d]
                                                 const float* radians,  // [⌈d / 2⌉]
                                                 int positions, int d) {
  const int i = blockIdx.x * kTableThreads + threadIdx.x;
  if (2 * i >= d) return;
  const float frequency = radians[i];
  for (unsigned position = blockIdx.y; position < unsigned(positions); position += gridDim.y) {
    float2 sin_cos;
    sincosf(float(position) * frequency, &sin_cos.x, &sin_cos.y);
    store_pair(table + int64_t(position) * d, i, d, sin_cos);
  }
}
// [/hoisted]

inline void sinusoidal_hoisted(Stream& stream,
                               float* table,  // device, [positions, d]
                               const SinusoidalFrequencies& frequencies, int positions, int d) {
  launch(sinusoidal_hoisted_kernel, table_grid(positions, ceil_div(d, 2)), dim3(kTableThreads), on(stream), table,
         frequencies.radians.data(), positions, d);
}

// [split]
// Exact and fast at once: the angle comes reduced to [−π, π], where the special-function unit's sin and cos are within
// 2^-20 (CUDA C++ Programming Guide, intrinsic functions). PAIRS = 2 writes 16 bytes at a time.
template <int PAIRS>
__global__ void sinusoidal_split_kernel(float* table,                 // [positions, d]
                                        const SplitFrequency* turns,  // [⌈d / 2⌉]
                                        int positions, int d) {
  static_assert(PAIRS == 1 || PAIRS == 2, "one pair, or 16 bytes");
  const int i = (blockIdx.x * kTableThreads + threadIdx.x) * PAIRS;
  if (2 * i >= d) return;
  SplitFrequency frequency[PAIRS];
  for (int p = 0; p < PAIRS; ++p) frequency[p] = turns[i + p];
  for (unsigned position = blockIdx.y; position < unsigned(positions); position += gridDim.y) {
    float2 v[PAIRS];
    for (int p = 0; p < PAIRS; ++p) {
      const float angle = reduced_angle(float(position), frequency[p]);
      v[p] = make_float2(__sinf(angle), __cosf(angle));
    }
    float* row = table + int64_t(position) * d;
    if constexpr (PAIRS == 2)
      __stcs(reinterpret_cast<float4*>(row + 2 * i), make_float4(v[0].x, v[0].y, v[1].x, v[1].y));
    else
      store_pair(row, i, d, v[0]);
  }
}
// [/split]

inline void sinusoidal_split(Stream& stream,
                             float* table,  // device, [positions, d]
                             const SinusoidalFrequencies& frequencies, int positions, int d) {
  const bool vectors = d % 4 == 0 && reinterpret_cast<uintptr_t>(table) % 16 == 0;
  const int threads = ceil_div(d, vectors ? 4 : 2);
  launch(vectors ? sinusoidal_split_kernel<2> : sinusoidal_split_kernel<1>, table_grid(positions, threads),
         dim3(kTableThreads), on(stream), table, frequencies.turns.data(), positions, d);
}

// The table computed before, copied to where it is wanted: no arithmetic, but every value is read as well as written.
inline void sinusoidal_precomputed(Stream& stream,
                                   float* table,           // device, [positions, d]
                                   const float* computed,  // device, [positions, d]
                                   int positions, int d) {
  copy_bytes_on_device(stream, table, computed, sizeof(float) * size_t(positions) * size_t(d));
}
