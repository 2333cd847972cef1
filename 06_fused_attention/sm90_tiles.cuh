// 06 · how fused_sm90.cuh cuts a problem into blocks, and what a block keeps in shared memory.
#pragma once
#include "06_fused_attention/attention.hpp"
#include "common/wgmma_sm90.hpp"

constexpr int kWarpgroup = 128;  // threads that start a wgmma together
constexpr int kConsumers = 2;    // warpgroups that compute; one more has the tiles copied
constexpr int kSm90Threads = (1 + kConsumers) * kWarpgroup;
constexpr int kWgmmaRows = 64;
constexpr int kPanel = 64;  // columns of a row of 128 bytes, the span of the swizzle

// Every tile lies as panels of 64 columns, each a box that TMA has copied: [rows][64], swizzled like SwizzledRows<64>.
// An mbarrier `full` says that the copy has arrived, `empty` that the consumers are through with it.
template <int D>
struct Sm90Shared {
  static_assert(D % kPanel == 0, "a tile is a whole number of panels");
  static constexpr int kPanels = D / kPanel;
  static constexpr int kKeys = D <= 128 ? 128 : 64;     // scores and output share a thread's 240 registers
  static constexpr int kKTiles = 2;                     // a k tile is free again before its softmax,
  static constexpr int kVTiles = D <= 128 ? 4 : 3;      // a v tile only a step later; what 227 KB hold
  bfloat16 q[kConsumers][kPanels][kWgmmaRows][kPanel];  // in the end the output
  bfloat16 k[kKTiles][kPanels][kKeys][kPanel];
  bfloat16 v[kVTiles][kPanels][kKeys][kPanel];
  Mbarrier q_full, k_full[kKTiles], k_empty[kKTiles], v_full[kVTiles], v_empty[kVTiles];
};

struct Sm90Maps {
  TensorMap q, k, v, out;
};

// [packing]
// A warpgroup's 64 rows are 2^position_bits queries of each of 64 >> position_bits heads that read the same KV head, one
// head behind the other. So a prompt of 16 tokens still fills its tiles where 4 heads share keys.
struct Sm90Form {
  int position_bits;
  bool split_keys;  // both consumers have the same rows, and every second key tile; else each has rows of its own

  __host__ __device__ int heads() const { return kWgmmaRows >> position_bits; }
  __host__ __device__ int positions() const { return (split_keys ? 1 : kConsumers) << position_bits; }  // of a block
};
// [/packing]

// What a block computes. Blocks start with the largest index of queries, whose rows are longest where causal.
struct Sm90Block {
  int batch, head, kv_head;  // head: the first of those that share the rows
  int position;              // of the first query
  int tiles;                 // of keys; walked from the last one backwards
  bool split_keys;
  int position_bits;

  __device__ __forceinline__ Sm90Block(const Attention<bfloat16>& p, const Sm90Form& form, int keys_of_tile)
      : split_keys(form.split_keys), position_bits(form.position_bits) {
    const int heads = p.heads / form.heads(), columns = p.batch * heads, column = blockIdx.x % columns;
    batch = column / heads;
    head = column % heads * form.heads();
    kv_head = head / (p.heads / p.kv_heads);
    position = (ceil_div(p.q_len, form.positions()) - 1 - int(blockIdx.x) / columns) * form.positions();
    tiles = ceil_div(p.keys_seen(min(position + form.positions(), p.q_len) - 1), keys_of_tile);
    if (split_keys) tiles += tiles % 2;  // as many for each; the one too many is hidden
  }
  // Where row `row` of half `half` of the rows stands.
  __device__ __forceinline__ int row_position(int half, int row) const {
    return position + (half << position_bits) + (row & ((1 << position_bits) - 1));
  }
  // Calls box(byte offset in the half's tile, coordinates) for each box that 64 rows of q or the output consist of.
  template <int PANELS, class Box>
  __device__ __forceinline__ void for_each_box(int half, Box box) const {
    for (int panel = 0; panel < PANELS; ++panel)
      for (int i = 0; i < kWgmmaRows >> position_bits; ++i)
        box((panel * kWgmmaRows + (i << position_bits)) * kPanel,
            make_int4(panel * kPanel, position + (half << position_bits), head + i, batch));
  }
};

inline TensorMap sm90_map(const bfloat16* base, const Attention<bfloat16>& p, int length, int heads, int64_t row_stride,
                          int64_t head_stride, int64_t batch_stride, int rows) {
  const auto stride = [](int64_t s) { return static_cast<uint64_t>(s); };
  const auto count = [](int n) { return static_cast<uint64_t>(n); };
  return make_tensor_map(base, {{count(p.head_dim), count(length), count(heads), count(p.batch)},
                                {stride(row_stride), stride(head_stride), stride(batch_stride)},
                                {kPanel, static_cast<uint32_t>(rows), 1, 1}});
}

// The tensors as TMA sees them. A box that passes a tensor's length reads zeros there, and never the next head's rows or
// what an unfilled cache holds (0 · NaN is NaN); a store leaves those rows alone.
inline Sm90Maps sm90_maps(const Attention<bfloat16>& p, const Sm90Form& form, int keys_of_tile) {
  const int rows = 1 << form.position_bits;
  const auto keys = [&](const bfloat16* base) {
    return sm90_map(base, p, p.kv_len, p.kv_heads, p.kv_row_stride, p.kv_head_stride, p.kv_batch_stride, keys_of_tile);
  };
  return {sm90_map(p.q, p, p.q_len, p.heads, p.q_row_stride, p.q_head_stride, p.q_batch_stride, rows), keys(p.k),
          keys(p.v),
          sm90_map(p.out, p, p.q_len, p.heads, p.out_row_stride, p.out_head_stride, p.out_batch_stride, rows)};
}
