// 05 · argmax: the greedy choice of a token, on the device
//
// Several blocks look at a part each; the last one to finish merges what they found. Nobody waits: a block learns from a
// ticket whether it is the last (CUDA's threadFenceReduction sample). The ticket wraps to 0, so a captured launch can be
// replayed for ever.
#pragma once
#include <algorithm>
#include <climits>
#include <cmath>

#include "common/launch.hpp"

constexpr int kArgmaxThreads = 256, kArgmaxBlocks = 128;

// What the blocks leave for the last of them; made before a graph is captured, one for each stream that runs at the same
// time.
struct ArgmaxScratch {
  DeviceBuffer<float> values{kArgmaxBlocks};
  DeviceBuffer<int> indices{kArgmaxBlocks};
  DeviceBuffer<unsigned> ticket{std::vector<unsigned>{0}};
};

// A value with its place. No place yet: INT_MAX.
struct Best {
  float value;
  int index;
};

// The larger value; of equal ones the smaller index, so that the result does not depend on who looked first. A NaN is
// neither larger nor equal and never wins.
__device__ __forceinline__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

__device__ __forceinline__ Best warp_best(Best v) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const Best other{__shfl_xor_sync(0xffffffffu, v.value, distance), __shfl_xor_sync(0xffffffffu, v.index, distance)};
    v = better(v, other);
  }
  return v;
}

// Every thread gets the result. Two calls need a barrier between them.
__device__ __forceinline__ Best block_best(Best v) {
  __shared__ float value_of_warp[kArgmaxThreads / 32];
  __shared__ int index_of_warp[kArgmaxThreads / 32];
  v = warp_best(v);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) value_of_warp[warp] = v.value, index_of_warp[warp] = v.index;
  __syncthreads();
  return warp_best(lane < kArgmaxThreads / 32 ? Best{value_of_warp[lane], index_of_warp[lane]}
                                              : Best{-INFINITY, INT_MAX});
}

// [argmax]
template <int V>
__global__ void __launch_bounds__(kArgmaxThreads) argmax_kernel(const float* logits,  // [n]
                                                                int n,
                                                                int* index,                   // [1]
                                                                float* values, int* indices,  // [gridDim.x]
                                                                unsigned* ticket) {
  static_assert(kArgmaxBlocks <= kArgmaxThreads, "each thread of the last block takes one block's result");
  pdl_wait();
  Best best{-INFINITY, INT_MAX};
  const unsigned packs = unsigned(n) / V;
  for (unsigned p = blockIdx.x * kArgmaxThreads + threadIdx.x; p < packs; p += gridDim.x * kArgmaxThreads) {
    if constexpr (V == 4) {
      const float4 v = load_vec<float4>(logits + size_t(p) * 4);
      best = better(best, {v.x, int(p * 4)});
      best = better(best, {v.y, int(p * 4 + 1)});
      best = better(best, {v.z, int(p * 4 + 2)});
      best = better(best, {v.w, int(p * 4 + 3)});
    } else {
      best = better(best, {logits[p], int(p)});
    }
  }
  const unsigned rest = packs * V + threadIdx.x;  // up to three values behind the last pack
  if (blockIdx.x == 0 && rest < unsigned(n)) best = better(best, {logits[rest], int(rest)});

  best = block_best(best);
  __shared__ bool last;
  if (threadIdx.x == 0) {
    values[blockIdx.x] = best.value;
    indices[blockIdx.x] = best.index;
    __threadfence();  // the result is visible before the ticket says so
    last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();  // and the others' results are read after their tickets
  }
  __syncthreads();
  if (!last) return;
  best =
      block_best(threadIdx.x < gridDim.x ? Best{values[threadIdx.x], indices[threadIdx.x]} : Best{-INFINITY, INT_MAX});
  if (threadIdx.x == 0) *index = best.index == INT_MAX ? 0 : best.index;
}
// [/argmax]

// index[0] = the place of the largest of the n logits (n ≥ 1); of equal ones the smallest, as torch.argmax documents.
// NaN is ignored; where all are NaN the result is 0. pdl: launched as a dependent of the kernel before it.
inline void argmax(Stream& stream,
                   const float* logits,  // device, [n]
                   int n,
                   int* index,  // device, [1]
                   ArgmaxScratch& scratch, bool pdl = false) {
  const bool aligned = reinterpret_cast<uintptr_t>(logits) % 16 == 0;
  const int blocks = std::min(kArgmaxBlocks, ceil_div(n, 4 * kArgmaxThreads));
  launch(aligned ? argmax_kernel<4> : argmax_kernel<1>, dim3(unsigned(blocks)), dim3(kArgmaxThreads),
         on(stream).pdl(pdl), logits, n, index, scratch.values.data(), scratch.indices.data(), scratch.ticket.data());
}
