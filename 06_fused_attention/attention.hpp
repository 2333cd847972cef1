// 06 · what every attention kernel of this step is given, and what is refused before anything is launched.
//
//   out[i] = Σ_j softmax_j(scale · q[i]·k[j]) · v[j]      over the keys j that query i may see
//
// (Vaswani et al., Attention Is All You Need, 3.2.1). Query head h reads KV head h / (heads / kv_heads): grouped-query
// attention (Ainslie et al. 2023). A row that may see no key gives 0.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "common/device.hpp"

// Strides count elements. A row is head_dim contiguous elements.
template <class T>
struct Attention {
  const T* q;  // [batch, heads, q_len, head_dim] by its strides
  const T* k;  // [batch, kv_heads, kv_len, head_dim]
  const T* v;  // the same strides as k
  T* out;      // [batch, heads, q_len, head_dim]
  int batch, heads, kv_heads, q_len, kv_len, head_dim;
  int64_t q_row_stride, q_head_stride, kv_row_stride, kv_head_stride, out_row_stride, out_head_stride;
  int64_t q_batch_stride, kv_batch_stride, out_batch_stride;
  int q_start;  // position of query 0: with `causal`, key j is visible to query i iff j <= q_start + i
  bool causal;
  const uint8_t* key_mask;  // [batch, kv_len], 0 = padding, seen by nobody; or null
  float scale;              // usually 1/√head_dim

  // How many keys query `row` sees where key_mask is null: always the first ones.
  __host__ __device__ int keys_seen(int row) const {
    if (!causal) return kv_len;
    const int64_t last = int64_t(q_start) + row;
    return last < 0 ? 0 : last >= kv_len ? kv_len : static_cast<int>(last) + 1;
  }
  // Multiplications and additions that the mask leaves: 4 · head_dim for each pair of query and key.
  double flop() const {
    double pairs = 0;
    for (int row = 0; row < q_len; ++row) pairs += keys_seen(row);
    return 4.0 * batch * heads * head_dim * pairs;
  }
};

// Everything contiguous, in the order [batch, heads, length, head_dim]; not causal, no padding, scale 1/√head_dim.
template <class T>
Attention<T> attention_contiguous(const T* q, const T* k, const T* v, T* out, int batch, int heads, int kv_heads,
                                  int q_len, int kv_len, int head_dim) {
  Attention<T> p{};
  p.q = q;
  p.k = k;
  p.v = v;
  p.out = out;
  p.batch = batch;
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.head_dim = head_dim;
  p.q_row_stride = p.kv_row_stride = p.out_row_stride = head_dim;
  p.q_head_stride = p.out_head_stride = int64_t(q_len) * head_dim;
  p.kv_head_stride = int64_t(kv_len) * head_dim;
  p.q_batch_stride = p.out_batch_stride = heads * p.q_head_stride;
  p.kv_batch_stride = kv_heads * p.kv_head_stride;
  p.scale = 1.f / std::sqrt(static_cast<float>(head_dim));
  return p;
}

// Throws BadInput, in one line, where heads do not divide, a size is not positive, or head_dim is not one of ours.
inline void check_heads(int heads, int kv_heads, int head_dim) {
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0)
    throw BadInput(fmt::format("attention: {} heads over {} KV heads: expected a whole multiple", heads, kv_heads));
  if (head_dim != 64 && head_dim != 128 && head_dim != 256)
    throw BadInput(fmt::format("attention: head_dim {}: expected 64, 128 or 256", head_dim));
}

template <class T>
void check_attention(const Attention<T>& p) {
  check_heads(p.heads, p.kv_heads, p.head_dim);
  if (p.batch < 1 || p.q_len < 1 || p.kv_len < 1)
    throw BadInput(
        fmt::format("attention: batch {}, q_len {}, kv_len {}: expected at least 1", p.batch, p.q_len, p.kv_len));
  if (!(p.scale > 0) || !std::isfinite(p.scale))
    throw BadInput(fmt::format("attention: scale {}: expected a finite number above 0", p.scale));
  if (int64_t(p.q_start) + p.q_len > INT32_MAX)
    throw BadInput(fmt::format("attention: q_start {} + q_len {} passes 2^31", p.q_start, p.q_len));
  constexpr int64_t kVector = 16 / sizeof(T);  // rows are moved 16 bytes at a time
  const int64_t strides[] = {p.q_row_stride,   p.q_head_stride,   p.q_batch_stride,
                             p.kv_row_stride,  p.kv_head_stride,  p.kv_batch_stride,
                             p.out_row_stride, p.out_head_stride, p.out_batch_stride};
  for (const int64_t stride : strides)
    if (stride % kVector != 0)
      throw BadInput(fmt::format("attention: a stride of {} elements: expected a multiple of {}", stride, kVector));
  const T* const tensors[] = {p.q, p.k, p.v, p.out};
  for (const T* tensor : tensors)
    if (tensor == nullptr || reinterpret_cast<uintptr_t>(tensor) % 16 != 0)
      throw BadInput("attention: q, k, v and out: expected addresses that are multiples of 16 bytes");
  if (int64_t(p.batch) * p.heads > INT32_MAX || p.q_len > 65535 * 32)
    throw BadInput(
        fmt::format("attention: batch {} × heads {}, q_len {}: more than one grid holds", p.batch, p.heads, p.q_len));
}
