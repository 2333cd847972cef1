// 06 · the softmax of one row whose scores arrive tile by tile (step 05's online softmax, in powers of two).
//
// exp(scale·s − scale·max) = 2^(c·s − c·max) with c = scale · log2 e: one multiply-add and one instruction of the
// special-function unit. Rows keep `top` = c · max and a sum relative to it.
#pragma once
#include "common/launch.hpp"

constexpr float kLog2E = 1.44269504088896341f;

// A row's maximum is replaced only when a tile exceeds it by more than 2^8: until then weights just grow above 1, which
// float sums and bfloat16 weights take without loss, and the output needs no rescaling.
constexpr float kHeadroom = 8.f;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// What to subtract in the exponent. While a row has seen no visible key its maximum is -inf, and -inf − (-inf) would be
// NaN: 0 gives 2^(-inf) = 0 for each of its masked scores.
__device__ __forceinline__ float exponent_base(float top) { return top == minus_infinity() ? 0.f : top; }

// By what the sums so far have to be multiplied when the row's maximum goes from `old_top` to `new_top` >= old_top.
__device__ __forceinline__ float rescale(float old_top, float new_top) {
  return exp2_approx(old_top - exponent_base(new_top));
}

// 1 / sum for the last step of a row; a row without a visible key gets 0. NaN stays NaN.
__device__ __forceinline__ float inverse_sum(float sum) { return sum == 0.f ? 0.f : 1.f / sum; }
