// 08 · greedy sampling after norm_gemv_logits: the best of the blocks' bests, by one block
#pragma once
#include "08_qwen_operators/gemv.cuh"

inline __global__ void argmax_finish_kernel(const BlockBest* best,  // [count]
                                            int count,
                                            int* index) {  // 1
  pdl_launch_dependents();
  pdl_wait();
  __shared__ float values[32];
  __shared__ int indices[32];
  BlockBest winner{__int_as_float(int(0xff800000u)), INT32_MAX};
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    if (better(best[i], winner)) winner = best[i];
  winner = best_of_warp(winner);
  if (threadIdx.x % 32 == 0) {
    values[threadIdx.x / 32] = winner.value;
    indices[threadIdx.x / 32] = winner.index;
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const bool there = threadIdx.x < blockDim.x / 32;
  winner = best_of_warp(
      {there ? values[threadIdx.x] : __int_as_float(int(0xff800000u)), there ? indices[threadIdx.x] : INT32_MAX});
  if (threadIdx.x == 0) *index = winner.index == INT32_MAX ? 0 : winner.index;
}

// *index = where the largest logit is: the smallest index on a tie, NaN ignored, 0 if all are NaN.
inline void argmax_finish(Stream& stream,
                          const BlockBest* best,  // [count], from norm_gemv_logits
                          int count,
                          int* index,  // device, 1
                          bool pdl = false) {
  const int threads = count < 1024 ? ceil_div(count, 32) * 32 : 1024;
  launch(argmax_finish_kernel, dim3(1), dim3(threads), on(stream).pdl(pdl), best, count, index);
}
