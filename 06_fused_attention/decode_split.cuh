// 06 · attention of one query: split the keys
//
// Against the fused kernels: one query is one row of a tile, so one block a head would leave the card idle. Here a block
// takes one KV head and one split of its keys, for all query heads that share that KV head: K and V are read once, not
// once a query head. Every warp streams its own keys through a private ring in shared memory, so the loop needs no
// barrier. The block that finishes last adds the splits up. A short text is one block's work: adding splits up costs a
// fence, an atomic and two trips to L2, more than the few turns of the loop that splitting saves.
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
  // Under dependent launch: kv_len and all rows but the newest, kv_len − 1, were written before the first kernel of the
  // chain started, so they may be read before pdl_wait(). See "keys ahead" in decode_mma.cuh.
  bool keys_settled = false;
};

constexpr int kDecodeThreads = 128, kDecodeWarps = kDecodeThreads / 32;
constexpr int kDecodeBatch = 4;      // keys a lane has under way at a time
constexpr int kDecodeStages = 3;     // batches in the ring
constexpr int kMostHeadsAtOnce = 8;  // query heads one block carries; a larger group takes several blocks
constexpr int kMostSplits = 64;      // more would make the last block's sum slower than the splits it saves
constexpr int kAloneKeys = 512;      // up to so many keys one block a KV head takes all
constexpr size_t kDecodeSharedBytes = size_t(kDecodeStages) * 2 * kDecodeBatch * kDecodeThreads * 16;  // 48 KB

// Where splits leave their sums. Allocated once, before any capture; one for all layers of a model is enough, since
// launches on a stream follow one another. The counters are 0 between launches.
class DecodeScratch {
 public:
  // splits = 0: about one block a multiprocessor, and none where no text can be longer than kAloneKeys.
  DecodeScratch(int heads, int kv_heads, int head_dim, int capacity, int splits = 0) {
    check_heads(heads, kv_heads, head_dim);
    if (capacity < 1 || splits < 0 || splits > kMostSplits)
      throw BadInput(fmt::format("attention_decode: capacity {}, {} splits: expected at least 1, and 0 to {} splits",
                                 capacity, splits, kMostSplits));
    const int group = heads / kv_heads;
    row_blocks = kv_heads * ceil_div(group, kMostHeadsAtOnce);
    tensor_cores = device().has_bf16_mma;
    alone_keys = tensor_cores && splits == 0 ? kAloneKeys : 0;
    this->splits = splits > 0               ? splits
                   : capacity <= alone_keys ? 1
                                            : std::min(kMostSplits, std::max(4, device().multiprocessors / row_blocks));
    const size_t rows = size_t(row_blocks) * size_t(this->splits) * std::min(group, kMostHeadsAtOnce);
    sums = DeviceBuffer<float>(rows * size_t(head_dim));
    tops = DeviceBuffer<float2>(rows);
    arrived = DeviceBuffer<unsigned>(std::vector<unsigned>(size_t(row_blocks), 0u));
  }
  int splits = 0, row_blocks = 0;
  int alone_keys = 0;              // texts up to this length are not split; the tensor-core kernel alone looks at it
  bool tensor_cores = false;       // which kernel; false may be set to compare
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
  int alone_keys;
};

// [split]
// Keys of a split: the valid keys spread over all splits, at least one step of the block, beyond that in whole tiles.
// 20 000 keys over 64 splits in steps of 128 would be 53 splits of 384 and leave a sixth of the card idle; in tiles of 16
// they are 63 splits of 320. Splits behind the last key are empty, so that the grid may be fixed while the text grows.
__device__ __forceinline__ int keys_per_split(int keys, int splits, int step, int tile) {
  return max(step, ceil_div(ceil_div(keys, splits), tile) * tile);
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

// The last step, by one block: out = Σ over splits of (its weight · its sum of values). `shared`: kMostSplits · heads
// weights, then a float4 a thread.
template <int D, int kThreads>
__device__ void decode_combine(const DecodeWork& w, size_t first_row, int active, int heads, int head0, float* shared) {
  static_assert(kMostSplits == 64, "a lane of the warp below holds two splits");
  constexpr int kBatch = 16;  // loads a thread has under way
  const int lane = threadIdx.x % 32, columns = heads * D / 4, slices = max(1, kThreads / columns);
  float4* const slice_sums = reinterpret_cast<float4*>(shared + kMostSplits * kMostHeadsAtOnce);
  const auto load = [&](float4(&part)[kBatch], int i, int first) {
    const int h = i % columns / (D / 4), column = i % (D / 4) * 4, slice = i / columns;
    const float* from = w.sums + (first_row + h) * D + column;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int s = slice + (first + b) * slices;
      part[b] = s < active ? load_vec<float4>(from + size_t(s) * w.row_stride * D) : make_float4(0.f, 0.f, 0.f, 0.f);
    }
  };
  float4 part[kBatch];
  const bool works = static_cast<int>(threadIdx.x) < columns * slices;
  if (works) load(part, threadIdx.x, 0);  // on their way while the weights are made

  for (int h = threadIdx.x / 32; h < heads; h += kThreads / 32) {
    float2 top_sum[2];
    for (int i = 0; i < 2; ++i) {
      const int s = lane + 32 * i;
      top_sum[i] = s < active ? w.tops[first_row + s * w.row_stride + h] : make_float2(minus_infinity(), 0.f);
    }
    float top = fmaxf(top_sum[0].x, top_sum[1].x);
    for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
    const float factor[2] = {rescale(top_sum[0].x, top), rescale(top_sum[1].x, top)};
    float sum = factor[0] * top_sum[0].y + factor[1] * top_sum[1].y;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    const float inverse = inverse_sum(sum);
    for (int i = 0; i < 2; ++i) shared[(lane + 32 * i) * heads + h] = factor[i] * inverse;  // 0 behind the last split
  }
  __syncthreads();  // all weights stand
  const auto store = [&](int i, float4 total) {
    store_vec(w.p.out + size_t(head0) * D + 4 * i,
              make_uint2(pack_bf16(total.x, total.y), pack_bf16(total.z, total.w)));
  };
  for (int i = threadIdx.x; i < columns * slices; i += kThreads) {
    const int h = i % columns / (D / 4), slice = i / columns;
    float4 total = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int first = 0; slice + first * slices < active; first += kBatch) {
      if (first > 0 || i >= kThreads) load(part, i, first);
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int s = slice + (first + b) * slices;
        const float factor = s < active ? shared[s * heads + h] : 0.f;
        total.x += factor * part[b].x;
        total.y += factor * part[b].y;
        total.z += factor * part[b].z;
        total.w += factor * part[b].w;
      }
    }
    if (slices == 1)
      store(i, total);
    else
      slice_sums[i] = total;  // i is below kThreads then
  }
  if (slices == 1) return;
  __syncthreads();  // all slices stand
  for (int i = threadIdx.x; i < columns; i += kThreads) {
    float4 total = slice_sums[i];
    for (int slice = 1; slice < slices; ++slice) {
      const float4 more = slice_sums[slice * columns + i];
      total = make_float4(total.x + more.x, total.y + more.y, total.z + more.z, total.w + more.w);
    }
    store(i, total);
  }
}

// Warps' sums into the block's, and that into the output or, where there are several splits, into the scratch; the last
// block then combines the splits. Begins and goes on with the whole block.
template <int D, int kWarps>
__device__ void decode_finish(const DecodeWork& w, float* warp_sums,  // [warp][slots][pitch], shared memory
                              const float2* warp_tops,                // [warp][slots]
                              int slots, int pitch, int active, int heads, int head0) {
  constexpr int kThreads = 32 * kWarps;
  __syncthreads();  // all warps' sums stand
  const size_t first_row = size_t(blockIdx.y) * gridDim.x * w.row_stride;
  for (int i = threadIdx.x; i < heads * D / 2; i += kThreads) {
    const int h = i / (D / 2), column = i % (D / 2) * 2;
    float block_top = minus_infinity(), block_sum = 0.f;
#pragma unroll
    for (int j = 0; j < kWarps; ++j) block_top = fmaxf(block_top, warp_tops[j * slots + h].x);
    float2 total = make_float2(0.f, 0.f);
#pragma unroll
    for (int j = 0; j < kWarps; ++j) {
      const float factor = rescale(warp_tops[j * slots + h].x, block_top);
      const float2 one = load_vec<float2>(warp_sums + (j * slots + h) * pitch + column);
      block_sum += factor * warp_tops[j * slots + h].y;
      total.x += factor * one.x;
      total.y += factor * one.y;
    }
    if (active == 1) {
      const float inverse = inverse_sum(block_sum);
      store_vec(w.p.out + size_t(head0 + h) * D + column, pack_bf16(total.x * inverse, total.y * inverse));
    } else {
      const size_t row = first_row + size_t(blockIdx.x) * w.row_stride + h;
      store_vec(w.sums + row * D + column, total);
      if (column == 0) w.tops[row] = make_float2(block_top, block_sum);
    }
  }
  if (active == 1) return;

  // [last]
  __shared__ bool is_last;
  __threadfence();  // this thread's part of the split is visible to the card …
  __syncthreads();  // … every thread's is, before the block counts itself
  if (threadIdx.x == 0) is_last = atomicInc(w.arrived + blockIdx.y, active - 1) == static_cast<unsigned>(active - 1);
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  decode_combine<D, kThreads>(w, first_row, active, heads, head0, warp_sums);
  // [/last]
}
