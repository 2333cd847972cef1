// 08 · the kernel of linear_sm90.cuh: y = x Wᵀ on Hopper's tensor cores (wgmma), fed by its copy engine (TMA)
//
// Against linear_kernel.cuh, where every warp copies, waits and multiplies in turn:
//   · Roles. One thread only copies, two warpgroups only multiply; mbarriers of a ring of tiles stand between them, not
//     __syncthreads. The copying thread runs as far ahead as the ring allows, into the next tile of y too.
//   · One instruction copies a tile: the tensor map knows rows, bounds and swizzle, so no thread computes an address.
//   · wgmma multiplies 64 rows by up to 256 columns straight from shared memory: no ldmatrix, no fragments in registers.
//   · Registers move from the copying warpgroup to the multiplying ones (setmaxnreg), which hold 64 × 256 sums.
//   · As many blocks as multiprocessors; each takes tile after tile of y. While a tile is stored, the ring fills for the
//     next one.
//   · Weights of the first tiles are fetched before pdl_wait().
//   · bfloat16 leaves by way of shared memory as swizzled boxes of 64 × 64, which the copy engine stores and clips.
#pragma once
#include "08_qwen_operators/linear_kernel.cuh"
#include "common/wgmma_sm90.hpp"

// 128 × BN outputs a tile, 64 rows of them for each multiplying warpgroup; STAGES tiles of 64 of K in the ring.
template <int BN_, int STAGES_>
struct LinearTileSm90 {
  static constexpr int BM = 128, BN = BN_, BK = 64, STAGES = STAGES_;
  static constexpr int MULTIPLIERS = 2, COPIER = 128 * MULTIPLIERS, THREADS = COPIER + 128;  // threads 256 … copy
  static constexpr uint32_t X_BYTES = BM * 128, W_BYTES = BN * 128, STAGE_BYTES = X_BYTES + W_BYTES,
                            BOX_BYTES = 64 * 128;
  static constexpr size_t SHARED =
      size_t(STAGES) * (STAGE_BYTES + 2 * sizeof(Mbarrier)) + MULTIPLIERS * 2 * size_t(BOX_BYTES);
  static_assert(BN == 64 || BN == 128 || BN == 256, "a wgmma of this tutorial has 64, 128 or 256 columns");
  static_assert(SHARED <= 227 * 1024, "what a block may have on sm_90");
};

// The place in the ring where a tile goes or comes from, and the parity of that turn.
template <int STAGES>
struct RingPlace {
  int stage = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void next() {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
};

// Piece of work number `item`: a tile of y over a piece of K. All blocks of a turn work in the same band (tile_in_bands).
struct LinearItem {
  int row0, col0, begin, end, piece;  // begin and end in tiles of K
  template <class Tile>
  static __device__ __forceinline__ LinearItem at(unsigned item, int M, int N, int K, int split, Tile) {
    const int tiles_m = ceil_div(M, Tile::BM), tiles_n = ceil_div(N, Tile::BN), all = ceil_div(K, Tile::BK);
    const unsigned tiles = unsigned(tiles_m) * unsigned(tiles_n);
    const int piece = int(item / tiles);
    const int2 tile = tile_in_bands(item % tiles, tiles_m, tiles_n);
    return {tile.x * Tile::BM, tile.y * Tile::BN, int(int64_t(all) * piece / split),
            int(int64_t(all) * (piece + 1) / split), piece};
  }
};

// This thread's two neighbouring results in row half `half` of group `group` of 8 columns: `c` is its accumulator.
template <LinearEnd END, int R>
__device__ __forceinline__ float2 results(const float (&c)[R], int group, int half) {
  if constexpr (END == LinearEnd::kStore) {
    return make_float2(c[4 * group + 2 * half], c[4 * group + 2 * half + 1]);
  } else {  // groups of gate and up alternate
    const int gate = 8 * group + 2 * half, up = gate + 4;
    return make_float2(silu(round_bf16(c[gate])) * round_bf16(c[up]),
                       silu(round_bf16(c[gate + 1])) * round_bf16(c[up + 1]));
  }
}
template <class Out>
__device__ __forceinline__ float2 with_bias(const LinearArguments<Out>& p, float2 v, int col) {
  if (!p.bias || col >= p.N) return v;
  const float2 bias = unpack_bf16(load_vec<uint32_t>(p.bias + col));
  return make_float2(v.x + bias.x, v.y + bias.y);
}

// [linear_sm90]
// x_map: boxes of BM rows × 64 of x. w_map: of W, BN rows × 64; with kSwiglu 8 rows of gate, 8 of up, and so on, as one
// box of rank 4. y_map: 64 × 64 of y, for bfloat16 alone. p.N: columns of y. p.y, p.bias: N is a multiple of 8.
template <class Tile, LinearEnd END, class Out>
__global__ void __launch_bounds__(Tile::THREADS, 1)
    linear_sm90_kernel(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap w_map,
                       [[maybe_unused]] const __grid_constant__ TensorMap y_map, LinearArguments<Out> p, int split) {
  if constexpr (kHopperCode) {
    constexpr int BN = Tile::BN, STAGES = Tile::STAGES, SHARE = END == LinearEnd::kSwiglu ? 2 : 1;
    pdl_launch_dependents();
    char* ring = dynamic_shared_1024<char>();  // [STAGES] tiles of x and of W
    char* boxes = ring + STAGES * Tile::STAGE_BYTES;
    auto* full = reinterpret_cast<Mbarrier*>(boxes + Tile::MULTIPLIERS * 2 * Tile::BOX_BYTES);
    Mbarrier* empty = full + STAGES;
    const int lane = threadIdx.x % 32, warpgroup = __shfl_sync(~0u, int(threadIdx.x) / 128, 0);  // one for the warp
    if (threadIdx.x == Tile::COPIER) {
      for (int stage = 0; stage < STAGES; ++stage) {
        mbarrier_init(full + stage, 1);
        mbarrier_init(empty + stage, Tile::MULTIPLIERS * 4);  // one lane of each warp
      }
      mbarrier_init_fence();
      tma_prefetch_descriptor(x_map);
      tma_prefetch_descriptor(w_map);
    }
    __syncthreads();  // the mbarriers are initialised before anyone waits
    const unsigned items = unsigned(ceil_div(p.M, Tile::BM)) * ceil_div(SHARE * p.N, BN) * split;
    RingPlace<STAGES> place;

    if (warpgroup == Tile::MULTIPLIERS) {
      registers_down_to<24>();
      if (threadIdx.x != Tile::COPIER) return;
      const auto item_at = [&](unsigned i) { return LinearItem::at(i, p.M, SHARE * p.N, p.K, split, Tile()); };
      const auto load_w = [&](const LinearItem& item, int t, int stage) {
        char* w_tile = ring + stage * Tile::STAGE_BYTES + Tile::X_BYTES;
        mbarrier_expect_bytes(full + stage, Tile::STAGE_BYTES);
        if constexpr (END == LinearEnd::kSwiglu)
          tma_load(w_tile, w_map, full + stage, make_int4(t * Tile::BK, 0, 0, item.col0 / 16));
        else
          tma_load(w_tile, w_map, full + stage, make_int2(t * Tile::BK, item.col0));
      };
      // [weights_ahead]
      // Weights never change: those of the first turn of the ring are on their way while the kernel in front still runs.
      const LinearItem first = item_at(blockIdx.x);
      const int ahead = min(first.end, first.begin + STAGES);
      for (int t = first.begin; t < ahead; ++t) load_w(first, t, t - first.begin);
      pdl_wait();
      // [/weights_ahead]
      for (unsigned i = blockIdx.x; i < items; i += gridDim.x) {
        const LinearItem item = item_at(i);
        for (int t = item.begin; t < item.end; ++t, place.next()) {
          mbarrier_wait(empty + place.stage, place.parity ^ 1);  // in the first turn nothing is there to be read
          if (i > blockIdx.x || t >= ahead) load_w(item, t, place.stage);
          tma_load(ring + place.stage * Tile::STAGE_BYTES, x_map, full + place.stage,
                   make_int2(t * Tile::BK, item.row0));
        }
      }
    } else {
      registers_up_to<240>();
      pdl_wait();  // before y is written: an earlier kernel may still read what was there
      const int row_in_tile = threadIdx.x / 32 * 16 + lane / 4;  // and 8 further down
      [[maybe_unused]] int box = 0;
      float c[BN / 2];
      for (unsigned i = blockIdx.x; i < items; i += gridDim.x) {
        const LinearItem item = LinearItem::at(i, p.M, SHARE * p.N, p.K, split, Tile());
        Mbarrier* before = nullptr;  // of the tile whose wgmma are under way
        for (int t = item.begin; t < item.end; ++t, place.next()) {
          const char* x_tile = ring + place.stage * Tile::STAGE_BYTES;
          mbarrier_wait(full + place.stage, place.parity);
          const uint64_t a = wgmma_descriptor(x_tile + warpgroup * 64 * 128);
          const uint64_t b = wgmma_descriptor(x_tile + Tile::X_BYTES);
          wgmma_fence();
#pragma unroll
          for (int step = 0; step < Tile::BK / 16; ++step)
            wgmma(c, wgmma_advance(a, 32 * step), wgmma_advance(b, 32 * step), t > item.begin || step > 0);
          wgmma_commit();
          wgmma_wait<1>();  // the tensor cores have this tile to do while the one before is given back
          if (before && lane == 0) mbarrier_arrive(before);
          before = empty + place.stage;
        }
        wgmma_wait<0>(c);
        if (lane == 0) mbarrier_arrive(before);

        const int row = item.row0 + row_in_tile, col0 = item.col0 / SHARE + lane % 4 * 2;
        if constexpr (sizeof(Out) == 2) {
          static_assert(BN / SHARE % 64 == 0, "y is stored in boxes of 64 columns");
          const bool first = threadIdx.x % 128 == 0;
#pragma unroll
          for (int j = 0; j < BN / SHARE / 64; ++j, box ^= 1) {
            char* to = boxes + (2 * warpgroup + box) * Tile::BOX_BYTES;
            if (first) tma_store_wait_read<1>();  // the store before last has left this box
            named_barrier_sync(1 + warpgroup, 128);
#pragma unroll
            for (int group = 0; group < 8; ++group)
#pragma unroll
              for (int half = 0; half < 2; ++half) {
                const float2 v = with_bias(p, results<END>(c, 8 * j + group, half), col0 + 64 * j + 8 * group);
                const int r = row_in_tile % 64 + 8 * half;
                store_vec(to + r * 128 + (group ^ r % 8) * 16 + lane % 4 * 4, pack_bf16(v.x, v.y));
              }
            async_proxy_fence();
            named_barrier_sync(1 + warpgroup, 128);
            if (first) {
              tma_store(y_map, make_int2(item.col0 / SHARE + 64 * j, item.row0 + 64 * warpgroup), to);
              tma_store_commit();
            }
          }
        } else {
          float* y = p.y + int64_t(item.piece) * p.M * p.N;
#pragma unroll
          for (int group = 0; group < BN / SHARE / 8; ++group)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const int col = col0 + 8 * group;
              if (row + 8 * half >= p.M || col >= p.N) continue;
              float2 v = with_bias(p, results<END>(c, group, half), col);
              float* to = y + int64_t(row + 8 * half) * p.N + col;
              if (p.add) {
                const float2 old = load_vec<float2>(to);
                v = make_float2(v.x + old.x, v.y + old.y);
              }
              store_vec(to, v);
            }
        }
      }
      if (sizeof(Out) == 2 && threadIdx.x % 128 == 0) tma_store_wait_read<0>();  // before shared memory is gone
    }
  }
}
// [/linear_sm90]
