// 08 · RMSNorm and the residual stream (operators 1, 11, 12, 17, 20)
//
//   y = bf16(x · r) ⊙ w,   r = 1 / sqrt(mean(x²) + eps)      Zhang and Sennrich 2019, equation 4, with Qwen's eps
// The residual stream x is float; everything that a matrix multiplication reads is bfloat16. Both roundings, after the
// scale and after the weight, are where the reference implementation of Qwen has them.
// Predict: memory-bound; a row is read twice, the second time from L1, so 6 bytes an element cross the bus.
#pragma once
#include "common/launch.hpp"

constexpr int kMostWarps = 8;  // of a block here and in gemv.cuh

// Warps that share one row of `columns`: enough for 32 columns each, so that small models do not start idle threads.
// RMSNorm alone and fused into a projection use the same number, and so add in the same order: their bits are equal.
inline int warps_for_row(int columns) { return columns >= 32 * kMostWarps ? kMostWarps : ceil_div(columns, 32); }

// [row_sum]
// Sum of `value` over the block, the same bits in every thread. Called once per kernel: the scratch is not reused.
__device__ __forceinline__ float row_sum(float value) {
  __shared__ float of_warp[kMostWarps];
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.f;
#pragma unroll
  for (int warp = 0; warp < kMostWarps; ++warp)  // a fixed count, so that the loads follow one another without waiting
    if (warp < int(blockDim.x / 32)) sum += of_warp[warp];
  return sum;
}
// [/row_sum]

// [rms_scale]
// The factor r of one row, by the whole block. `vector`: row and columns allow 16-byte loads.
__device__ __forceinline__ float rms_scale(const float* x,  // [columns]
                                           int columns, float eps, bool vector) {
  float squares = 0.f;
  if (vector) {
    for (int i = 4 * threadIdx.x; i < columns; i += 4 * blockDim.x) {
      const float4 v = load_vec<float4>(x + i);
      squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
  } else {
    for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += x[i] * x[i];
  }
  return rsqrtf(row_sum(squares) / float(columns) + eps);
}

__host__ __device__ __forceinline__ float round_bf16(float v) { return __bfloat162float(__float2bfloat16(v)); }
// One element: rounded after the scale, and by the caller's store after the weight.
__device__ __forceinline__ float normalised(float x, float scale, bfloat16 weight) {
  return round_bf16(x * scale) * __bfloat162float(weight);
}
// [/rms_scale]

// The norm of one row, by the whole block; each thread reads the same columns as in rms_scale.
__device__ __forceinline__ void store_norm(const float* x,          // [columns]
                                           const bfloat16* weight,  // [columns]
                                           bfloat16* y,             // [columns]
                                           int columns, float scale, bool vector) {
  if (vector) {
    for (int i = 4 * threadIdx.x; i < columns; i += 4 * blockDim.x) {
      const float4 v = load_vec<float4>(x + i);
      const uint2 packed = load_vec<uint2>(weight + i);
      const float2 a = unpack_bf16(packed.x), b = unpack_bf16(packed.y);
      store_vec(y + i, make_uint2(pack_bf16(round_bf16(v.x * scale) * a.x, round_bf16(v.y * scale) * a.y),
                                  pack_bf16(round_bf16(v.z * scale) * b.x, round_bf16(v.w * scale) * b.y)));
    }
  } else {
    for (int i = threadIdx.x; i < columns; i += blockDim.x) y[i] = __float2bfloat16(normalised(x[i], scale, weight[i]));
  }
}

// A block a row. With `delta`, first x += delta: residual add and norm in one pass over the row.
inline __global__ void rms_norm_kernel(float* x,                // [rows, columns]; written only where delta is given
                                       const bfloat16* delta,   // [rows, columns] or null
                                       const bfloat16* weight,  // [columns]
                                       bfloat16* y,             // [rows, columns]
                                       int columns, float eps, bool vector) {
  pdl_launch_dependents();
  pdl_wait();
  const size_t row = size_t(blockIdx.x) * columns;
  if (delta) {
    for (int i = threadIdx.x; i < columns; i += blockDim.x) x[row + i] += __bfloat162float(delta[row + i]);
    __syncthreads();  // below, other threads read these elements
  }
  const float scale = rms_scale(x + row, columns, eps, vector);
  store_norm(x + row, weight, y + row, columns, scale, vector);
}

inline bool aligned_to(const void* address, size_t bytes) { return reinterpret_cast<uintptr_t>(address) % bytes == 0; }

// y = RMSNorm(x) ⊙ weight for each row; any rows, columns ≥ 1. An all-zero row gives zeros as long as eps > 0.
inline void rms_norm(Stream& stream,
                     const float* x,          // [rows, columns]
                     const bfloat16* weight,  // [columns]
                     bfloat16* y,             // [rows, columns]
                     int rows, int columns, float eps, bool pdl = false) {
  const bool vector = columns % 4 == 0 && aligned_to(x, 16) && aligned_to(weight, 8) && aligned_to(y, 8);
  launch(rms_norm_kernel, dim3(rows), dim3(32 * warps_for_row(columns)), on(stream).pdl(pdl), const_cast<float*>(x),
         static_cast<const bfloat16*>(nullptr), weight, y, columns, eps, vector);
}

// x += delta, then y = RMSNorm(x) ⊙ weight, in one kernel.
inline void residual_add_rms_norm(Stream& stream,
                                  float* x,                // [rows, columns], updated
                                  const bfloat16* delta,   // [rows, columns]
                                  const bfloat16* weight,  // [columns]
                                  bfloat16* y,             // [rows, columns]
                                  int rows, int columns, float eps, bool pdl = false) {
  const bool vector = columns % 4 == 0 && aligned_to(x, 16) && aligned_to(weight, 8) && aligned_to(y, 8);
  launch(rms_norm_kernel, dim3(rows), dim3(32 * warps_for_row(columns)), on(stream).pdl(pdl), x, delta, weight, y,
         columns, eps, vector);
}

inline __global__ void residual_add_kernel(float* x,               // [count]
                                           const bfloat16* delta,  // [count]
                                           size_t count) {
  pdl_launch_dependents();
  pdl_wait();
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) x[i] += __bfloat162float(delta[i]);
}

// x += delta: the residual connection as an operator of its own.
inline void residual_add(Stream& stream,
                         float* x,               // [count], updated
                         const bfloat16* delta,  // [count]
                         size_t count, bool pdl = false) {
  launch(residual_add_kernel, dim3(static_cast<unsigned>(ceil_div<size_t>(count, 256))), dim3(256), on(stream).pdl(pdl),
         x, delta, count);
}
