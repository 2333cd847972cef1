// The running maximum and sum of the online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867, algorithm 3), and
// the reductions over a warp and a block.
#pragma once
#include <cmath>

#include "common/launch.hpp"

// [online]
// What is known of the values seen so far: their maximum m, and the sum of exp(x − m).
struct Online {
  float max, sum;
};
__device__ __forceinline__ Online nothing_seen() { return {-INFINITY, 0.f}; }

// What is subtracted before exp. Not an infinite maximum: ∞ − ∞ is NaN.
__device__ __forceinline__ float shift_of(float max) { return fabsf(max) == INFINITY ? 0.f : max; }

// Two parts of a row become one. A NaN among the values lives on in the sum, for fmaxf drops it.
__device__ __forceinline__ Online merge(Online a, Online b) {
  const float max = fmaxf(a.max, b.max), shift = shift_of(max);
  return {max, a.sum * __expf(a.max - shift) + b.sum * __expf(b.max - shift)};
}
// [/online]

// Takes in PACKS × V values with one rescaling of the old sum.
template <int PACKS, int V>
__device__ __forceinline__ Online add(Online seen, const float (&values)[PACKS][V]) {
  float max = seen.max;
#pragma unroll
  for (int p = 0; p < PACKS; ++p)
    for (int i = 0; i < V; ++i) max = fmaxf(max, values[p][i]);
  const float shift = shift_of(max);
  float sum = seen.sum * __expf(seen.max - shift);
#pragma unroll
  for (int p = 0; p < PACKS; ++p)
    for (int i = 0; i < V; ++i) sum += __expf(values[p][i] - shift);
  return {max, sum};
}

// The factor that turns exp(x − shift) into a probability. A row of −inf alone has the sum 0 and gets zeros; a row that
// holds +inf has no softmax and gets NaN, as a row that holds NaN does.
__device__ __forceinline__ float scale_of(Online row) {
  if (row.max == INFINITY) return NAN;
  return row.sum == 0.f ? 0.f : 1.f / row.sum;
}

__device__ __forceinline__ float warp_max(float v) {
  for (int distance = 16; distance > 0; distance /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, distance));
  return v;
}
__device__ __forceinline__ float warp_sum(float v) {
  for (int distance = 16; distance > 0; distance /= 2) v += __shfl_xor_sync(0xffffffffu, v, distance);
  return v;
}
__device__ __forceinline__ Online warp_merge(Online v) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const Online other{__shfl_xor_sync(0xffffffffu, v.max, distance), __shfl_xor_sync(0xffffffffu, v.sum, distance)};
    v = merge(v, other);
  }
  return v;
}

// Over a block of THREADS threads in x; every thread gets the result. Each warp leaves one value in shared memory, and
// after one barrier each warp reduces those by itself: no second barrier hands the result out. Therefore a kernel that
// calls one of them twice puts a barrier between the calls.
template <int THREADS>
__device__ __forceinline__ float block_max(float v) {
  static_assert(THREADS % 32 == 0 && THREADS <= 1024, "whole warps, and one value a warp for one warp to reduce");
  v = warp_max(v);
  if constexpr (THREADS > 32) {
    __shared__ float of_warp[THREADS / 32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) of_warp[warp] = v;
    __syncthreads();
    v = warp_max(lane < THREADS / 32 ? of_warp[lane] : -INFINITY);
  }
  return v;
}
template <int THREADS>
__device__ __forceinline__ float block_sum(float v) {
  static_assert(THREADS % 32 == 0 && THREADS <= 1024, "whole warps, and one value a warp for one warp to reduce");
  v = warp_sum(v);
  if constexpr (THREADS > 32) {
    __shared__ float of_warp[THREADS / 32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) of_warp[warp] = v;
    __syncthreads();
    v = warp_sum(lane < THREADS / 32 ? of_warp[lane] : 0.f);
  }
  return v;
}
template <int THREADS>
__device__ __forceinline__ Online block_merge(Online v) {
  static_assert(THREADS % 32 == 0 && THREADS <= 1024, "whole warps, and one value a warp for one warp to reduce");
  v = warp_merge(v);
  if constexpr (THREADS > 32) {
    __shared__ float max_of_warp[THREADS / 32], sum_of_warp[THREADS / 32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) max_of_warp[warp] = v.max, sum_of_warp[warp] = v.sum;
    __syncthreads();
    v = warp_merge(lane < THREADS / 32 ? Online{max_of_warp[lane], sum_of_warp[lane]} : nothing_seen());
  }
  return v;
}
