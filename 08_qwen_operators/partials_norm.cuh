// 08 · the sum over split-K's pieces, where it costs no kernel of its own: in the residual add and RMSNorm that follow
#pragma once
#include "08_qwen_operators/rms_norm.cuh"

// [partials_norm]
// A block a row: x += partial[0] + partial[1] + …, in this order, then y = RMSNorm(x) ⊙ weight.
inline __global__ void add_partials_rms_norm_kernel(float* x,                // [rows, columns], updated
                                                    const float* partial,    // [split, rows, columns]
                                                    const bfloat16* weight,  // [columns]
                                                    bfloat16* y,             // [rows, columns]
                                                    int rows, int columns, int split, float eps, bool vector) {
  pdl_launch_dependents();
  const size_t row = size_t(blockIdx.x) * columns, piece = size_t(rows) * columns;
  pdl_wait();
  if (vector) {
    for (int i = 4 * threadIdx.x; i < columns; i += 4 * blockDim.x) {
      float4 sum = load_vec<float4>(partial + row + i);
#pragma unroll 8
      for (int s = 1; s < split; ++s) {
        const float4 v = load_vec<float4>(partial + s * piece + row + i);
        sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
      }
      const float4 old = load_vec<float4>(x + row + i);
      store_vec(x + row + i, make_float4(old.x + sum.x, old.y + sum.y, old.z + sum.z, old.w + sum.w));
    }
  } else {
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
      float sum = partial[row + i];
      for (int s = 1; s < split; ++s) sum += partial[s * piece + row + i];
      x[row + i] += sum;
    }
  }
  // each thread reads below what it has written itself
  const float scale = rms_scale(x + row, columns, eps, vector);
  store_norm(x + row, weight, y + row, columns, scale, vector);
}
// [/partials_norm]

// x += Σ partial, then y = RMSNorm(x) ⊙ weight for each row; split ≥ 1.
inline void add_partials_rms_norm(Stream& stream,
                                  float* x,                // [rows, columns], updated
                                  const float* partial,    // [split, rows, columns]
                                  const bfloat16* weight,  // [columns]
                                  bfloat16* y,             // [rows, columns]
                                  int rows, int columns, int split, float eps, bool pdl = false) {
  const bool vector =
      columns % 4 == 0 && aligned_to(x, 16) && aligned_to(partial, 16) && aligned_to(weight, 8) && aligned_to(y, 8);
  launch(add_partials_rms_norm_kernel, dim3(rows), dim3(32 * warps_for_row(columns)), on(stream).pdl(pdl), x, partial,
         weight, y, rows, columns, split, eps, vector);
}

inline __global__ void sum_partials_kernel(const float* partial,  // [split, count]
                                           bfloat16* y,           // [count]
                                           size_t count, int split) {
  pdl_launch_dependents();
  pdl_wait();
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = partial[i];
  for (int s = 1; s < split; ++s) sum += partial[s * count + i];
  y[i] = __float2bfloat16(sum);
}

// y = Σ partial as a kernel of its own: what fusing it saves.
inline void sum_partials(Stream& stream,
                         const float* partial,  // [split, count]
                         bfloat16* y,           // [count]
                         size_t count, int split, bool pdl = false) {
  launch(sum_partials_kernel, dim3(static_cast<unsigned>(ceil_div<size_t>(count, 256))), dim3(256), on(stream).pdl(pdl),
         partial, y, count, split);
}
