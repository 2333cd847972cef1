// 08 · greedy sampling after norm_gemv_logits: the best of the blocks' bests, by one block
#pragma once
#include "08_qwen_operators/gemv.cuh"

inline __global__ void argmax_finish_kernel(const BlockBest* best,  // [count]
                                            int count,
                                            int* index) {  // 1
  pdl_launch_dependents();
  pdl_wait();
  BlockBest winner{-INFINITY, INT_MAX};
  for (int i = threadIdx.x; i < count; i += blockDim.x) winner = better(winner, best[i]);
  winner = block_best(winner);
  if (threadIdx.x == 0) *index = winner.index == INT_MAX ? 0 : winner.index;
}

// *index = where the largest logit is: the smallest index on a tie, NaN ignored, 0 if all are NaN.
inline void argmax_finish(Stream& stream,
                          const BlockBest* best,  // [count], from norm_gemv_logits
                          int count,
                          int* index,  // device, 1
                          bool pdl = false) {
  launch(argmax_finish_kernel, dim3(1), dim3(kArgmaxThreads), on(stream).pdl(pdl), best, count, index);
}
