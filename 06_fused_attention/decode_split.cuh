// 06 · attention of one query: split the keys
//
// Against the fused kernels: one query is one row of a tile, so one block a head would leave the card idle. Here a block
// takes one KV head and one split of its keys, for all query heads that share that KV head: K and V are read once, not
// once a query head. Every thread streams its own 16-byte pieces through a private ring in shared memory, so the loop
// needs no barrier. The block that finishes last adds the splits up.
// Predict: 4·head_dim·group FLOP for 4·head_dim bytes a key: group FLOP a byte. Read bandwidth is the bound.
// Run: make step06     Look closer: make lab06 · make profile06
#pragma once
#include <algorithm>

#include "06_fused_attention/attention.hpp"
#include "06_fused_attention/online_row.cuh"

// One query against a KV cache of one sequence.
struct DecodeAttention {
  const bfloat16* q;  // [heads, head_dim]
  const bfloat16* k;  // [kv_heads, capacity, head_dim]
  const bfloat16* v;  // [kv_heads, capacity, head_dim]
  bfloat16* out;      // [heads, head_dim]
  const int* kv_len;  // in device memory: how many positions are valid; read by the kernel, clamped to [0, capacity]
  int heads, kv_heads, head_dim, capacity;
  float scale;
};

constexpr int kDecodeThreads = 128, kDecodeWarps = kDecodeThreads / 32;
constexpr int kDecodeBatch = 4;      // keys a lane has under way at a time
constexpr int kDecodeStages = 3;     // batches in the ring
constexpr int kMostHeadsAtOnce = 8;  // query heads one block carries; a larger group takes several blocks
constexpr int kMostSplits = 64;      // more would make the last block's sum slower than the splits it saves
constexpr size_t kDecodeSharedBytes = size_t(kDecodeStages) * 2 * kDecodeBatch * kDecodeThreads * 16;  // 48 KB

// Where splits leave their sums. Allocated once, before any capture; one for all layers of a model is enough, since
// launches on a stream follow one another. The counters are 0 between launches.
class DecodeScratch {
 public:
  // splits = 0: about one block a multiprocessor.
  DecodeScratch(int heads, int kv_heads, int head_dim, int capacity, int splits = 0) {
    check_heads(heads, kv_heads, head_dim);
    if (capacity < 1 || splits < 0 || splits > kMostSplits)
      throw BadInput(fmt::format("attention_decode: capacity {}, {} splits: expected at least 1, and 0 to {} splits",
                                 capacity, splits, kMostSplits));
    const int group = heads / kv_heads;
    row_blocks = kv_heads * ceil_div(group, kMostHeadsAtOnce);
    this->splits = splits > 0 ? splits : std::min(kMostSplits, std::max(4, device().multiprocessors / row_blocks));
    const size_t rows = size_t(row_blocks) * size_t(this->splits) * std::min(group, kMostHeadsAtOnce);
    sums = DeviceBuffer<float>(rows * size_t(head_dim));
    tops = DeviceBuffer<float2>(rows);
    arrived = DeviceBuffer<unsigned>(std::vector<unsigned>(size_t(row_blocks), 0u));
  }
  int splits = 0, row_blocks = 0;
  DeviceBuffer<float> sums;        // [row_blocks, splits, group, head_dim], not yet divided by the row's sum
  DeviceBuffer<float2> tops;       // [row_blocks, splits, group]: (c · max, sum of powers)
  DeviceBuffer<unsigned> arrived;  // [row_blocks]
};

// What the kernel gets.
struct DecodeWork {
  DecodeAttention p;
  float* sums;
  float2* tops;
  unsigned* arrived;
  int group, row_stride;  // query heads a KV head, and of those in one block
};

// [split]
// Keys of a split: the valid keys spread over all splits, in whole steps of the block. Splits behind the last key are
// empty, so that the grid may be fixed while the text grows.
__device__ __forceinline__ int keys_per_split(int keys, int splits, int step) {
  return max(1, ceil_div(ceil_div(keys, splits), step)) * step;
}
// [/split]

// Eight bfloat16 as floats.
__device__ __forceinline__ void unpack_8(float (&to)[8], uint4 from) {
  const unsigned pairs[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = unpack_bf16(pairs[i]);
    to[2 * i] = pair.x;
    to[2 * i + 1] = pair.y;
  }
}

// The last step, by one block: out = Σ over splits of (its weight · its sum of values). `weight` is shared memory of
// active · heads floats.
template <int D>
__device__ void decode_combine(const DecodeWork& w, size_t first_row, int active, int heads, int head0, float* weight) {
  static_assert(kMostSplits == 64, "a lane of the warp below holds two splits");
  const int lane = threadIdx.x % 32;
  for (int h = threadIdx.x / 32; h < heads; h += kDecodeWarps) {
    float2 part[2];
    for (int i = 0; i < 2; ++i) {
      const int s = lane + 32 * i;
      part[i] = s < active ? w.tops[first_row + s * w.row_stride + h] : make_float2(minus_infinity(), 0.f);
    }
    float top = fmaxf(part[0].x, part[1].x);
    for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
    const float factor[2] = {rescale(part[0].x, top), rescale(part[1].x, top)};
    float sum = factor[0] * part[0].y + factor[1] * part[1].y;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    const float inverse = inverse_sum(sum);
    for (int i = 0; i < 2; ++i)
      if (lane + 32 * i < active) weight[(lane + 32 * i) * heads + h] = factor[i] * inverse;
  }
  __syncthreads();  // all weights stand
  for (int i = threadIdx.x; i < heads * D / 4; i += kDecodeThreads) {
    const int h = i / (D / 4), column = i % (D / 4) * 4;
    const float* from = w.sums + (first_row + h) * D + column;
    float4 total = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll 16
    for (int s = 0; s < active; ++s) {
      const float4 part = load_vec<float4>(from + size_t(s) * w.row_stride * D);
      const float factor = weight[s * heads + h];
      total.x += factor * part.x;
      total.y += factor * part.y;
      total.z += factor * part.z;
      total.w += factor * part.w;
    }
    store_vec(w.p.out + size_t(head0 + h) * D + column,
              make_uint2(pack_bf16(total.x, total.y), pack_bf16(total.z, total.w)));
  }
}
