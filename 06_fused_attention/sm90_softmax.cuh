// 06 · mask and softmax on the accumulator of a wgmma, in registers: step 05's online softmax once more.
//
// A thread holds parts of two rows of its warp's 16, lane / 4 and that + 8: score[4n + 2h + e] is row h, key
// 8n + 2 (lane % 4) + e of the tile. Four neighbouring lanes share the rows.
#pragma once
#include "06_fused_attention/online_row.cuh"

struct RowPair {
  float top[2] = {minus_infinity(), minus_infinity()};
  float sum[2] = {};     // of this thread's keys
  float factor[2] = {};  // what the output so far has to be multiplied by, where exponentials() says so
};

// Hides the keys that a row does not see: from seen[h] on.
template <int N>
__device__ __forceinline__ void hide_beyond(float (&score)[N], int key0, const int (&seen)[2]) {
  const int first = key0 + 2 * (threadIdx.x % 4);
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (first + i / 4 * 8 + i % 2 >= seen[i / 2 % 2]) score[i] = minus_infinity();
}

// Hides the keys whose byte in mask[kv_len] is 0.
template <int N>
__device__ __forceinline__ void hide_padding(float (&score)[N], int key0, const uint8_t* mask, int kv_len) {
  const int first = key0 + 2 * (threadIdx.x % 4);
#pragma unroll
  for (int i = 0; i < N; i += 4)
    for (int e = 0; e < 2; ++e) {
      const int key = first + 2 * i + e;
      if (key < kv_len && mask[key] == 0) score[i + e] = score[i + 2 + e] = minus_infinity();
    }
}

// Turns scores into weights and adds them to the sums; c = scale · log2 e. True, for the whole warp, where the maximum
// has moved and what was summed before has to be multiplied by `factor`.
template <int N>
__device__ __forceinline__ bool exponentials(float (&score)[N], RowPair& rows, float c) {
  float most[2];
  bool grown = false;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float value = minus_infinity();
    for (int i = 2 * h; i < N; i += 4) value = fmaxf(value, fmaxf(score[i], score[i + 1]));
    value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
    most[h] = c * fmaxf(value, __shfl_xor_sync(~0u, value, 2));
    grown = grown || most[h] > rows.top[h] + kHeadroom;
  }
  grown = __any_sync(~0u, grown);
  if (grown)
    for (int h = 0; h < 2; ++h) {
      const float new_top = fmaxf(rows.top[h], most[h]);
      rows.factor[h] = rescale(rows.top[h], new_top);
      rows.top[h] = new_top;
      rows.sum[h] *= rows.factor[h];
    }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float base = exponent_base(rows.top[h]);
    for (int i = 2 * h; i < N; i += 4)
      for (int e = 0; e < 2; ++e) {
        score[i + e] = exp2_approx(fmaf(score[i + e], c, -base));
        rows.sum[h] += score[i + e];
      }
  }
  return grown;
}

// values[i] *= factor of its row
template <int N>
__device__ __forceinline__ void scale_rows(float (&values)[N], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] *= factor[i / 2 % 2];
}
