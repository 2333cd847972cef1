// 06 · fused attention on Hopper (sm_90a): the algorithm of FlashAttention-3 (Shah et al. 2024)
//
// The products and the softmax are those of fused_mma.cuh. New, and where:
//   wgmma       four warps start 64 × 128 × 16 together and go on; q, k and v stay in shared memory  [scores] [values]
//   TMA         one thread has whole tiles copied, and an mbarrier counts their bytes                [copies]
//   roles       one warpgroup copies and gives its registers to the two that compute                 [roles]
//   overlap     the softmax of tile i while the tensor cores do the output of tile i - 1             [steps]
//   turns       one warpgroup's softmax behind the other's products                                  [steps]
//   packing     heads that share keys share a tile of rows                                           sm90_tiles.cuh
//   split keys  few blocks: both warpgroups take the same rows and half of the keys each             sm90_output.cuh
// Predict: 64 rows by 128 keys at head dimension 128 are 4 · 64 · 128 · 128 FLOP, 1 024 cycles of the tensor cores, and
//          64 · 128 exponentials, 512 cycles of the special-function units. One after the other the tensor cores would
//          rest for a third of the time; hidden, for none of it.
// Run: make step06     Look closer: make lab06 · make profile06
#pragma once
#include "06_fused_attention/sm90_output.cuh"

// Has the tiles copied, in the order in which they are needed; one thread. Tile t takes place t mod n of its ring of n.
// [copies]
template <int D>
__device__ __forceinline__ void copy_tiles(Sm90Shared<D>& shared, const Sm90Block& block, const Sm90Maps& maps) {
  using Shared = Sm90Shared<D>;
  const int halves = block.split_keys ? 1 : kConsumers;
  mbarrier_expect_bytes(&shared.q_full, uint32_t(halves * sizeof shared.q[0]));
  for (int half = 0; half < halves; ++half)
    block.for_each_box<Shared::kPanels>(
        half, [&](int offset, int4 at) { tma_load(&shared.q[half][0][0][0] + offset, maps.q, &shared.q_full, at); });
  const auto copy = [&](auto& tile, const TensorMap& map, Mbarrier* full, Mbarrier* empty, int use, int key0) {
    mbarrier_wait(empty, (use + 1) % 2);  // the first use waits for nobody
    mbarrier_expect_bytes(full, sizeof tile);
    for (int panel = 0; panel < Shared::kPanels; ++panel)
      tma_load(tile[panel], map, full, make_int4(panel * kPanel, key0, block.kv_head, block.batch));
  };
  for (int t = 0; t < block.tiles; ++t) {
    const int key0 = (block.tiles - 1 - t) * Shared::kKeys, k = t % Shared::kKTiles, v = t % Shared::kVTiles;
    copy(shared.k[k], maps.k, &shared.k_full[k], &shared.k_empty[k], t / Shared::kKTiles, key0);
    copy(shared.v[v], maps.v, &shared.v_full[v], &shared.v_empty[v], t / Shared::kVTiles, key0);
  }
}
// [/copies]

// Computes; the 128 threads of a consumer.
template <int D>
__device__ __forceinline__ void attend(Sm90Shared<D>& shared, const Sm90Block& block, const Sm90Maps& maps,
                                       const Attention<bfloat16>& p) {
  using Shared = Sm90Shared<D>;
  constexpr int KEYS = Shared::kKeys;
  constexpr uint32_t kPanelBytes = KEYS * kPanel * sizeof(bfloat16);
  constexpr bool kTurns = D <= 128;  // beyond, the softmax is too small a part for turns to pay
  const int consumer = threadIdx.x / kWarpgroup - 1, half = block.split_keys ? 0 : consumer;
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x % kWarpgroup / 32 * 16;
  const int seen[2] = {p.keys_seen(block.row_position(half, warp_row + lane / 4)),
                       p.keys_seen(block.row_position(half, warp_row + lane / 4 + 8))};
  const int seen_by_all = p.keys_seen(block.row_position(half, warp_row));  // of the warp
  const uint8_t* const mask = p.key_mask ? p.key_mask + int64_t(block.batch) * p.kv_len : nullptr;
  const float c = p.scale * kLog2E;

  float out[D / 2] = {}, score[KEYS / 2];
  uint32_t weight[KEYS / 16][4];  // the A operand of the second product
  RowPair rows;

  // step i is tile number tile(i) of the block
  const int steps = block.split_keys ? block.tiles / 2 : block.tiles;
  const auto tile = [&](int i) { return block.split_keys ? 2 * i + consumer : i; };
  const auto release = [&](Mbarrier* empty) {
    if (lane == 0) mbarrier_arrive(empty);
  };

  const uint64_t q = wgmma_descriptor(shared.q[half]);
  const auto issue_scores = [&](int i) {
    const int place = tile(i) % Shared::kKTiles;
    mbarrier_wait(&shared.k_full[place], tile(i) / Shared::kKTiles % 2);
    // [scores]
    const uint64_t k = wgmma_descriptor(shared.k[place]);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < D / 16; ++step)  // 16 columns are 32 bytes of a row, 64 are a panel
      wgmma(score, wgmma_advance(q, step / 4 * uint32_t(sizeof shared.q[0][0]) + step % 4 * 32),
            wgmma_advance(k, step / 4 * kPanelBytes + step % 4 * 32), step > 0);
    wgmma_commit();
    // [/scores]
  };
  const auto issue_values = [&](int i) {
    // [values]
    const uint64_t v = wgmma_descriptor(shared.v[tile(i) % Shared::kVTiles], 1024, kPanelBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < KEYS / 16; ++step)  // 16 keys are 16 rows of 128 bytes
      wgmma<true>(out, weight[step], wgmma_advance(v, step * 2048), true);
    wgmma_commit();
    // [/values]
  };
  const auto softmax = [&](int i) {
    const int key0 = (block.tiles - 1 - tile(i)) * KEYS;
    if (key0 + KEYS > seen_by_all) hide_beyond(score, key0, seen);
    if (mask) hide_padding(score, key0, mask, p.kv_len);
    const bool grown = exponentials(score, rows, c);
    // The next step needs these values. Waiting for them here, a branch, also keeps ptxas from moving the exponentials
    // behind the wait for the tensor cores that follows, where nothing would hide them.
    mbarrier_wait(&shared.v_full[tile(i) % Shared::kVTiles], tile(i) / Shared::kVTiles % 2);
    return grown;
  };
  const auto pack_weights = [&] {
#pragma unroll
    for (int i = 0; i < KEYS / 4; ++i) weight[i / 4][i % 4] = pack_bf16(score[2 * i], score[2 * i + 1]);
  };

  mbarrier_wait(&shared.q_full, 0);
  if (steps > 0) {
    issue_scores(0);
    wgmma_wait<0>(score);
    release(&shared.k_empty[tile(0) % Shared::kKTiles]);
    softmax(0);
    pack_weights();
    // [steps]
    for (int i = 1; i < steps; ++i) {
      if (kTurns && (consumer == 1 || i > 1)) named_barrier_sync(kTurn + consumer, kConsumers * kWarpgroup);
      issue_scores(i);
      issue_values(i - 1);
      if (kTurns && (consumer == 0 || i < steps - 1))
        named_barrier_arrive(kTurn + 1 - consumer, kConsumers * kWarpgroup);
      wgmma_wait<1>(score);
      release(&shared.k_empty[tile(i) % Shared::kKTiles]);
      const bool grown = softmax(i);
      wgmma_wait<0>(out);
      release(&shared.v_empty[tile(i - 1) % Shared::kVTiles]);
      if (grown) scale_rows(out, rows.factor);
      pack_weights();
    }
    // [/steps]
    issue_values(steps - 1);
    wgmma_wait<0>(out);
  }
  if (block.split_keys && !merge_halves<D>(shared, consumer, out, rows)) return;
  store_rows<D>(shared, block, half, maps.out, out, rows);
}

// [roles]
template <int D>
__global__ void __launch_bounds__(kSm90Threads, 1)
    attention_sm90_kernel(const __grid_constant__ Sm90Maps maps, const Attention<bfloat16> p, const Sm90Form form) {
  if constexpr (kHopperCode) {
    using Shared = Sm90Shared<D>;
    pdl_launch_dependents();
    Shared& shared = *dynamic_shared_1024<Shared>();
    const Sm90Block block(p, form, Shared::kKeys);
    if (threadIdx.x == 0)
      tma_prefetch_descriptor(maps.q), tma_prefetch_descriptor(maps.k), tma_prefetch_descriptor(maps.v);
    if (threadIdx.x == kWarpgroup) {
      const int readers = form.split_keys ? 4 : 4 * kConsumers;  // warps that read a tile
      mbarrier_init(&shared.q_full, 1);
      for (int i = 0; i < Shared::kKTiles; ++i)
        mbarrier_init(&shared.k_full[i], 1), mbarrier_init(&shared.k_empty[i], readers);
      for (int i = 0; i < Shared::kVTiles; ++i)
        mbarrier_init(&shared.v_full[i], 1), mbarrier_init(&shared.v_empty[i], readers);
      mbarrier_init_fence();
    }
    __syncthreads();
    pdl_wait();
    if (threadIdx.x < kWarpgroup) {  // 65 536 registers: 168 a thread at the start, then 24 and 240
      registers_down_to<24>();
      if (threadIdx.x == 0) copy_tiles<D>(shared, block, maps);
    } else {
      registers_up_to<240>();
      attend<D>(shared, block, maps, p);
    }
  }
}
// [/roles]

// One form of the kernel; p.head_dim has to be D.
template <int D>
void attention_sm90(Stream& stream, const Attention<bfloat16>& p, bool split_keys, bool pdl = false) {
  using Shared = Sm90Shared<D>;
  static_assert(sizeof(Shared) <= 227 * 1024, "what a block may have of shared memory");
  const int group = p.heads / p.kv_heads;
  Sm90Form form{6, split_keys};
  while (form.heads() < 8 && group % (2 * form.heads()) == 0) --form.position_bits;  // 8: a box begins at 1024 bytes
  const unsigned blocks = unsigned(p.batch * (p.heads / form.heads())) * unsigned(ceil_div(p.q_len, form.positions()));
  launch(attention_sm90_kernel<D>, dim3(blocks), dim3(kSm90Threads), on(stream).smem(sizeof(Shared)).pdl(pdl),
         sm90_maps(p, form, Shared::kKeys), p, form);
}

// Enqueues fused attention for Hopper: bfloat16 in and out, sums in float, weights rounded to bfloat16 before the second
// product. No memory beyond inputs and output. With `pdl` it may start before the kernel in front of it has ended. Throws
// BadInput (check_attention), and EnvironmentError where the card or the build has no wgmma (device().has_wgmma).
inline void attention_fused_sm90(Stream& stream, const Attention<bfloat16>& p, bool pdl = false) {
  check_attention(p);
  if (!device().has_wgmma)
    throw EnvironmentError("attention_fused_sm90: needs compute capability 9.0 and a build for sm_90a");
  // With split keys a block's time halves and its number doubles; keys and values are read twice as often, say a fifth
  // slower. That pays while blocks of 128 rows are fewer than half the multiprocessors; causal, where the longest of them
  // takes twice the mean, up to 1.5 times the multiprocessors: 2n against 1.2 · max(n, blocks · n / multiprocessors).
  const double blocks = double(p.batch) * p.heads * ceil_div(p.q_len, kConsumers * kWgmmaRows);
  const bool split_keys = blocks <= (p.causal ? 1.5 : 0.5) * device().multiprocessors;
  if (p.head_dim == 64)
    attention_sm90<64>(stream, p, split_keys, pdl);
  else if (p.head_dim == 128)
    attention_sm90<128>(stream, p, split_keys, pdl);
  else
    attention_sm90<256>(stream, p, split_keys, pdl);
}
