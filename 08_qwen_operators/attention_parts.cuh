// 08 · attention as the operators of the article's list (6, 7, 8), each a kernel of its own
//
// The score matrix goes to memory and comes back twice: that is what step 06 avoids. Here the parts are looked at one by
// one. GQA: query head h reads K and V of head h / (heads / kv_heads), which is an address, not a copy.
#pragma once
#include "08_qwen_operators/qk_norm_rope_store.cuh"

struct AttentionParts {
  const bfloat16* q;  // [tokens, heads, head_dim]
  KvCache cache;      // [kv_heads, capacity, head_dim]
  float* scores;      // [heads, tokens, kv_len]
  bfloat16* out;      // [tokens, heads, head_dim]
  HeadSplit split;
  int tokens, kv_len, q_start;  // query i stands at position q_start + i and sees keys 0 … q_start + i
  float scale;
  __host__ __device__ const bfloat16* key(int head, int j) const {
    return cache.k + (int64_t(head / (split.heads / split.kv_heads)) * cache.capacity + j) * split.head_dim;
  }
  __host__ __device__ const bfloat16* value(int head, int j) const {
    return cache.v + (int64_t(head / (split.heads / split.kv_heads)) * cache.capacity + j) * split.head_dim;
  }
};

// A warp a score: lanes split the head dimension.
inline __global__ void qk_score_kernel(AttentionParts p) {
  const int64_t item = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (item >= int64_t(p.split.heads) * p.tokens * p.kv_len) return;  // the whole warp
  const int lane = threadIdx.x % 32, j = int(item % p.kv_len), i = int(item / p.kv_len % p.tokens);
  const int head = int(item / p.kv_len / p.tokens);
  const bfloat16 *q = p.q + (int64_t(i) * p.split.heads + head) * p.split.head_dim, *k = p.key(head, j);
  float sum = 0.f;
  for (int d = lane; d < p.split.head_dim; d += 32) sum += __bfloat162float(q[d]) * __bfloat162float(k[d]);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) p.scores[item] = sum * p.scale;
}

// A warp a row, in place: softmax over the keys a query sees, 0 for the others. Every query sees at least key 0.
inline __global__ void causal_mask_softmax_kernel(AttentionParts p) {
  const int64_t row = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= int64_t(p.split.heads) * p.tokens) return;  // the whole warp
  const int lane = threadIdx.x % 32, seen = min(p.kv_len, p.q_start + int(row % p.tokens) + 1);
  float* s = p.scores + row * p.kv_len;
  float largest = -INFINITY, sum = 0.f;
  for (int j = lane; j < seen; j += 32) largest = fmaxf(largest, s[j]);
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  for (int j = lane; j < p.kv_len; j += 32) {
    s[j] = j < seen ? __expf(s[j] - largest) : 0.f;
    sum += s[j];
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  for (int j = lane; j < p.kv_len; j += 32) s[j] /= sum;
}

// A block a (token, head), a thread a dimension: neighbouring threads read neighbouring values of V.
inline __global__ void pv_matmul_kernel(AttentionParts p) {
  const int head = blockIdx.x % p.split.heads, i = blockIdx.x / p.split.heads;
  const float* weights = p.scores + (int64_t(head) * p.tokens + i) * p.kv_len;
  for (int d = threadIdx.x; d < p.split.head_dim; d += blockDim.x) {
    float sum = 0.f;
    for (int j = 0; j < p.kv_len; ++j) sum += weights[j] * __bfloat162float(p.value(head, j)[d]);
    p.out[(int64_t(i) * p.split.heads + head) * p.split.head_dim + d] = __float2bfloat16(sum);
  }
}

// scores = q kᵀ · scale
inline void qk_score(Stream& stream, const AttentionParts& p) {
  const int64_t items = int64_t(p.split.heads) * p.tokens * p.kv_len;
  launch(qk_score_kernel, dim3(static_cast<unsigned>(ceil_div<int64_t>(items, 8))), dim3(256), on(stream), p);
}
// scores = softmax(scores), causal
inline void causal_mask_softmax(Stream& stream, const AttentionParts& p) {
  const int64_t rows = int64_t(p.split.heads) * p.tokens;
  launch(causal_mask_softmax_kernel, dim3(static_cast<unsigned>(ceil_div<int64_t>(rows, 4))), dim3(128), on(stream), p);
}
// out = scores · v
inline void pv_matmul(Stream& stream, const AttentionParts& p) {
  launch(pv_matmul_kernel, dim3(static_cast<unsigned>(p.tokens * p.split.heads)), dim3(128), on(stream), p);
}
