// 08 · greedy sampling after gemv_logits: the best of the blocks' bests, by one block
#pragma once
#include "08_qwen_operators/gemv.cuh"

// What may follow in the same kernel, by one thread: a decoder moves on to its next token.
struct NothingMore {
  __device__ void operator()(int) const {}
};

template <class Then>
__global__ void argmax_finish_kernel(const BlockBest* best,  // [count]
                                     int count,
                                     int* index,  // 1
                                     Then then) {
  constexpr int kBatch = 10;  // loads a thread has under way: a vocabulary of 151 936 is two batches
  pdl_launch_dependents();
  pdl_wait();
  BlockBest winner{-INFINITY, INT_MAX};
  for (int first = threadIdx.x; first < count; first += kBatch * blockDim.x) {
    BlockBest some[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = first + i * blockDim.x;
      some[i] = at < count ? best[at] : BlockBest{-INFINITY, INT_MAX};
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) winner = better(winner, some[i]);
  }
  winner = block_best(winner);
  if (threadIdx.x == 0) {
    const int choice = winner.index == INT_MAX ? 0 : winner.index;
    *index = choice;
    then(choice);
  }
}

// *index = where the largest logit is: the smallest index on a tie, NaN ignored, 0 if all are NaN. Then then(*index) on
// the device.
template <class Then = NothingMore>
void argmax_finish(Stream& stream,
                   const BlockBest* best,  // [count], from gemv_logits
                   int count,
                   int* index,  // device, 1
                   bool pdl = false, const Then& then = {}) {
  launch(argmax_finish_kernel<Then>, dim3(1), dim3(kArgmaxThreads), on(stream).pdl(pdl), best, count, index, then);
}
