// 08 · QK-norm, RoPE and the KV cache (operators 3, 4, 5, 18 in one kernel, and 18 alone)
//
// What the qkv projection wrote is [tokens, (heads + 2 · kv_heads) · head_dim]: a row is q heads, k heads, v heads.
// Splitting it costs nothing: a head is an address (HeadView). One warp takes one head of one token: norm and rotation
// where asked for, then q to its buffer and k, v straight into the cache at the token's position.
// The pairs are half-split, (i, i + rotary/2), as Qwen and Llama have them; the cos/sin table is step 07's.
#pragma once
#include "08_qwen_operators/rms_norm.cuh"

// One layer's K or V cache: [kv_heads, capacity, head_dim]; positions of a head are neighbours, so that decode reads a
// head in one stream.
struct KvCache {
  bfloat16* k;
  bfloat16* v;
  int capacity;  // positions
};

// Operators 3 and 9, split and concatenation of heads: element (token, head, i) is data[token · token_stride + head ·
// head_stride + i]. No kernel, no copy.
struct HeadView {
  const bfloat16* data;
  int64_t token_stride, head_stride;
  __host__ __device__ const bfloat16* head(int token, int h) const {
    return data + token * token_stride + h * head_stride;
  }
};
struct HeadSplit {
  int heads, kv_heads, head_dim;
  __host__ __device__ int row() const { return (heads + 2 * kv_heads) * head_dim; }  // width of a qkv row
  HeadView q(const bfloat16* qkv) const { return {qkv, row(), head_dim}; }
  HeadView k(const bfloat16* qkv) const { return {qkv + heads * head_dim, row(), head_dim}; }
  HeadView v(const bfloat16* qkv) const { return {qkv + (heads + kv_heads) * head_dim, row(), head_dim}; }
};

struct QkNormRopeStore {
  const bfloat16* qkv;     // [tokens, split.row()]
  const bfloat16* q_norm;  // [head_dim] or null: no QK-norm
  const bfloat16* k_norm;  // [head_dim] or null
  const float2* table;     // [positions, rotary/2] cos, sin; or null: no rotation
  const int* positions;    // device, [tokens]; each < capacity, and < the table's rows
  bfloat16* q;             // [tokens, heads, head_dim], or null: only K and V are wanted
  KvCache cache;
  HeadSplit split;
  int rotary;  // rotated leading dimensions of a head, even; the others pass through
  float eps;
};

// [qk_norm_rope_store]
inline __global__ void qk_norm_rope_store_kernel(QkNormRopeStore p, int tokens) {
  pdl_launch_dependents();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = p.split.head_dim;
  const int all_heads = p.split.heads + 2 * p.split.kv_heads;
  const int64_t item = int64_t(blockIdx.x) * (blockDim.x / 32) + warp;
  float* x = dynamic_shared<float>() + warp * d;  // this warp's head
  pdl_wait();
  if (item >= int64_t(tokens) * all_heads) return;  // the whole warp; only warp-wide waits follow
  const int token = int(item / all_heads), head = int(item % all_heads);
  const bool is_q = head < p.split.heads, is_v = head >= p.split.heads + p.split.kv_heads;
  if (is_q && !p.q) return;
  const bfloat16* from = p.qkv + int64_t(token) * p.split.row() + head * d;
  const int position = p.positions[token];
  const bfloat16* weight = is_v ? nullptr : is_q ? p.q_norm : p.k_norm;

  float squares = 0.f;
  for (int i = lane; i < d; i += 32) {
    x[i] = __bfloat162float(from[i]);
    squares += x[i] * x[i];
  }
  if (weight) {
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    const float scale = rsqrtf(squares / float(d) + p.eps);
    for (int i = lane; i < d; i += 32) x[i] = round_bf16(normalised(x[i], scale, weight[i]));
  }
  __syncwarp();  // the partner of a pair belongs to another lane

  const int kv_head = head - p.split.heads - (is_v ? p.split.kv_heads : 0);
  bfloat16* to = is_q ? p.q + (int64_t(token) * p.split.heads + head) * d
                      : (is_v ? p.cache.v : p.cache.k) + (int64_t(kv_head) * p.cache.capacity + position) * d;
  const int half = p.table && !is_v ? p.rotary / 2 : 0;
  for (int i = lane; i < d; i += 32) {
    float value = x[i];
    if (i < 2 * half) {
      const float2 angle = p.table[int64_t(position) * half + i % half];  // x: cos, y: sin
      value = i < half ? value * angle.x - x[i + half] * angle.y : value * angle.x + x[i - half] * angle.y;
    }
    to[i] = __float2bfloat16(value);
  }
}
// [/qk_norm_rope_store]

// Throws BadInput for an odd rotary or one larger than head_dim. Positions are the caller's to check: they are known on
// the device alone.
inline void qk_norm_rope_store(Stream& stream, const QkNormRopeStore& p, int tokens, bool pdl = false) {
  if (p.table && (p.rotary % 2 != 0 || p.rotary > p.split.head_dim || p.rotary < 2))
    throw BadInput("qk_norm_rope_store: rotary " + std::to_string(p.rotary) +
                   " is not an even number from 2 to head_dim " + std::to_string(p.split.head_dim));
  const int64_t items = int64_t(tokens) * (p.split.heads + 2 * p.split.kv_heads);
  const int warps = 4;
  launch(qk_norm_rope_store_kernel, dim3(static_cast<unsigned>(ceil_div<int64_t>(items, warps))), dim3(32 * warps),
         on(stream).smem(sizeof(float) * warps * p.split.head_dim).pdl(pdl), p, tokens);
}

// Operator 18 alone: K and V rows of a qkv buffer go into the cache as they are.
inline void kv_cache_store(Stream& stream,
                           const bfloat16* qkv,   // [tokens, split.row()]
                           const int* positions,  // device, [tokens]
                           KvCache cache, HeadSplit split, int tokens, bool pdl = false) {
  qk_norm_rope_store(stream, {qkv, nullptr, nullptr, nullptr, positions, nullptr, cache, split, 0, 0.f}, tokens, pdl);
}
