// 06 · the end of a block of fused_sm90.cuh: the halves of the keys become one, and the output leaves by TMA.
#pragma once
#include "06_fused_attention/sm90_softmax.cuh"
#include "06_fused_attention/sm90_tiles.cuh"
#include "06_fused_attention/tile_copy.cuh"

enum Sm90Barrier { kTurn = 1, kKeysDone = 3, kHandedOver = 4, kStored = 5 };  // and kTurn + 1, kStored + 1

// [merge]
// Consumer 0, whose last tile comes first, hands its sums over and is done: false. A thread of consumer 1 has the same
// places of the same rows, so values pass from thread to thread and their layout does not matter.
template <int D>
__device__ __forceinline__ bool merge_halves(Sm90Shared<D>& shared, int consumer, float (&out)[D / 2], RowPair& rows) {
  const int thread = threadIdx.x % kWarpgroup;
  auto* const values = reinterpret_cast<float*>(shared.v) + thread;       // [D / 2][kWarpgroup]
  auto* const ends = reinterpret_cast<float*>(shared.q[1]) + 4 * thread;  // nobody's rows where keys are split
  static_assert(sizeof shared.v >= sizeof(float) * D / 2 * kWarpgroup, "the v tiles have room for an output in float");
  named_barrier_sync(kKeysDone, kConsumers * kWarpgroup);  // nobody reads a v tile any more
  if (consumer == 0) {
#pragma unroll
    for (int i = 0; i < D / 2; ++i) values[i * kWarpgroup] = out[i];
    store_vec(ends, make_float4(rows.top[0], rows.top[1], rows.sum[0], rows.sum[1]));
    named_barrier_arrive(kHandedOver, kConsumers * kWarpgroup);
    return false;
  }
  named_barrier_sync(kHandedOver, kConsumers * kWarpgroup);
  const float4 other = load_vec<float4>(ends);
  const float other_top[2] = {other.x, other.y}, other_sum[2] = {other.z, other.w};
  float mine[2], theirs[2];
  for (int h = 0; h < 2; ++h) {
    const float top = fmaxf(rows.top[h], other_top[h]);
    mine[h] = rescale(rows.top[h], top);
    theirs[h] = rescale(other_top[h], top);
    rows.sum[h] = rows.sum[h] * mine[h] + other_sum[h] * theirs[h];
  }
#pragma unroll
  for (int i = 0; i < D / 2; ++i) {
    const int h = i / 2 % 2;
    out[i] = out[i] * mine[h] + values[i * kWarpgroup] * theirs[h];
  }
  return true;
}
// [/merge]

// Divides by the sums and stores the rows of `half` as bfloat16, through the place where its queries were.
template <int D>
__device__ __forceinline__ void store_rows(Sm90Shared<D>& shared, const Sm90Block& block, int half,
                                           const TensorMap& map, float (&out)[D / 2], const RowPair& rows) {
  const int thread = threadIdx.x % kWarpgroup, lane = threadIdx.x % 32, row = thread / 32 * 16 + lane / 4;
  float inverse[2];
  for (int h = 0; h < 2; ++h) {
    float total = rows.sum[h];
    total += __shfl_xor_sync(~0u, total, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    inverse[h] = inverse_sum(total);
  }
  scale_rows(out, inverse);
#pragma unroll
  for (int n = 0; n < D / 8;
       ++n)  // a warp writes 8 chunks of 16 bytes at a time, and the swizzle puts them in 8 groups of banks
    for (int h = 0; h < 2; ++h)
      store_vec(&shared.q[half][n / 8][0][0] + SwizzledRows<kPanel>::at(row + 8 * h, n % 8) + 2 * (lane % 4),
                pack_bf16(out[4 * n + 2 * h], out[4 * n + 2 * h + 1]));
  async_proxy_fence();  // for the copy engine to see what threads have written
  named_barrier_sync(kStored + half, kWarpgroup);
  if (thread != 0) return;
  block.for_each_box<Sm90Shared<D>::kPanels>(
      half, [&](int offset, int4 at) { tma_store(map, at, &shared.q[half][0][0][0] + offset); });
  tma_store_commit();
  tma_store_wait_read<0>();
}
