// 06 · attention in four steps: what fusing is measured against
//
// Per query head: scores = q · kᵀ (step 04's GEMM on k transposed by step 03), scale and mask, softmax (step 05), scores · v
// (step 04). The score matrix [q_len, kv_len] lives in memory: written once, read and written twice, read once more.
// Predict: 6 · 4 bytes a score against 4·head_dim FLOP: 64 columns give 11 FLOP a byte, so memory is the bound.
// Run: make step06     Look closer: make lab06 · make profile06
#pragma once
#include "03_bank_conflict_padding/transpose.cuh"
#include "04_vectorized_double_buffer/best_gemm.cuh"
#include "05_online_softmax/softmax.cuh"
#include "06_fused_attention/attention.hpp"
#include "06_fused_attention/online_row.cuh"
#include "06_fused_attention/unfused_scratch.hpp"

// to[r, c] = from[r, c] for rows that lie `from_stride` and `to_stride` apart.
inline __global__ void copy_rows_kernel(const float* from, int64_t from_stride, float* to, int64_t to_stride,
                                        int cols) {
  const int64_t row = blockIdx.x;
  for (int col = threadIdx.x; col < cols; col += blockDim.x) to[row * to_stride + col] = from[row * from_stride + col];
}

// scores[i, j] = scale · scores[i, j], or -inf where query i may not see key j. One block per row.
inline __global__ void scale_and_mask_kernel(float* scores,  // [q_len, kv_len]
                                             Attention<float> p, int batch) {
  const int64_t row = blockIdx.x;
  const int seen = p.keys_seen(static_cast<int>(row));
  for (int key = threadIdx.x; key < p.kv_len; key += blockDim.x) {
    const bool hidden = key >= seen || (p.key_mask && p.key_mask[int64_t(batch) * p.kv_len + key] == 0);
    float& score = scores[row * p.kv_len + key];
    score = hidden ? minus_infinity() : p.scale * score;
  }
}

// The matrix itself where its rows are contiguous, else a contiguous copy of it in `room`.
inline const float* contiguous_rows(Stream& stream, const float* from, int64_t stride, int rows, int cols,
                                    float* room) {
  if (stride == cols) return from;
  launch(copy_rows_kernel, dim3(rows), dim3(64), on(stream), from, stride, room, int64_t(cols), cols);
  return room;
}

// Enqueues attention through a score matrix, one head after the other. Throws BadInput for what check_attention refuses
// and for more queries or keys than the scratch has room for.
inline void attention_unfused(Stream& stream, const Attention<float>& p, UnfusedScratch& scratch) {
  check_attention(p);
  if (p.q_len > scratch.q_len || p.kv_len > scratch.kv_len || p.head_dim > scratch.head_dim)
    throw BadInput(
        fmt::format("attention_unfused: q_len {}, kv_len {}, head_dim {}: the scratch has room for {}, {}, {}", p.q_len,
                    p.kv_len, p.head_dim, scratch.q_len, scratch.kv_len, scratch.head_dim));
  const int group = p.heads / p.kv_heads, D = p.head_dim;
  for (int batch = 0; batch < p.batch; ++batch)
    for (int head = 0; head < p.heads; ++head) {
      const int64_t kv = batch * p.kv_batch_stride + head / group * p.kv_head_stride;
      const float* q = contiguous_rows(stream, p.q + batch * p.q_batch_stride + head * p.q_head_stride, p.q_row_stride,
                                       p.q_len, D, scratch.q.data());
      if (head % group == 0)  // the heads of a group share k
        transpose(stream, contiguous_rows(stream, p.k + kv, p.kv_row_stride, p.kv_len, D, scratch.k.data()),
                  scratch.k_transposed.data(), p.kv_len, D);
      const float* v = contiguous_rows(stream, p.v + kv, p.kv_row_stride, p.kv_len, D, scratch.v.data());
      float* const out = p.out + batch * p.out_batch_stride + head * p.out_head_stride;
      float* const product = p.out_row_stride == D ? out : scratch.out.data();

      float* const scores = scratch.scores.data();
      gemm_best(stream, Gemm{q, scratch.k_transposed.data(), scores, p.q_len, p.kv_len, D});
      launch(scale_and_mask_kernel, dim3(p.q_len), dim3(256), on(stream), scores, p, batch);
      softmax_rows(stream, scores, scores, p.q_len, p.kv_len);
      gemm_best(stream, Gemm{scores, v, product, p.q_len, D, p.kv_len});
      if (product != out)
        launch(copy_rows_kernel, dim3(p.q_len), dim3(64), on(stream), static_cast<const float*>(product), int64_t(D),
               out, p.out_row_stride, D);
    }
}
