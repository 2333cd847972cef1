// 08 · SwiGLU (operator 15): y = SiLU(gate) · up,  SiLU(x) = x / (1 + e^-x)      Shazeer 2020, GLU variants
//
// The sigmoid uses __expf (two units in the last place of a float near 0, and e^-x is rounded away by the bfloat16 store
// of 2^-9); for x → -∞ e^-x becomes infinite and the result 0, as it should.
#pragma once
#include "common/launch.hpp"

__device__ __forceinline__ float silu(float x) { return x / (1.f + __expf(-x)); }

inline __global__ void act_mul_kernel(const bfloat16* gate,  // [rows, columns], rows in_stride apart
                                      const bfloat16* up,    // the same
                                      bfloat16* y,           // [rows, columns]
                                      int columns, int64_t in_stride, bool pairs) {
  pdl_launch_dependents();
  pdl_wait();
  const int64_t in = int64_t(blockIdx.y) * in_stride, out = int64_t(blockIdx.y) * columns;
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * (pairs ? 2 : 1);
  if (i >= columns) return;
  if (pairs) {
    const float2 g = unpack_bf16(load_vec<uint32_t>(gate + in + i)), u = unpack_bf16(load_vec<uint32_t>(up + in + i));
    store_vec(y + out + i, pack_bf16(silu(g.x) * u.x, silu(g.y) * u.y));
  } else {
    y[out + i] = __float2bfloat16(silu(__bfloat162float(gate[in + i])) * __bfloat162float(up[in + i]));
  }
}

// y = SiLU(gate) · up. With in_stride = 2 · columns and up = gate + columns it reads the output of a fused gate+up GEMM
// in place. Rows beyond a grid's 65 535 go in several launches.
inline void act_mul(Stream& stream,
                    const bfloat16* gate,  // [rows, columns], rows in_stride elements apart
                    const bfloat16* up,    // the same
                    bfloat16* y,           // [rows, columns]
                    int rows, int columns, int64_t in_stride, bool pdl = false) {
  const auto even = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 4 == 0; };
  const bool pairs = columns % 2 == 0 && in_stride % 2 == 0 && even(gate) && even(up) && even(y);
  const int most = 65535, per_block = pairs ? 512 : 256;
  for (int row = 0; row < rows; row += most)
    launch(act_mul_kernel, dim3(ceil_div(columns, per_block), rows - row < most ? rows - row : most), dim3(256),
           on(stream).pdl(pdl), gate + row * in_stride, up + row * in_stride, y + int64_t(row) * columns, columns,
           in_stride, pairs);
}
