// 06 · fused attention on the tensor cores
//
// The same schedule as fused_fp32.cuh, with both products as mma.sync m16n8k16 on bfloat16 (sm_80 and later; the
// algorithm of FlashAttention-2, Dao 2023). A warp owns whole rows, so the scores, which leave the first product in the
// layout of C, become the A operand of the second one in registers: nothing passes through shared memory.
// Predict: a k or v fragment is read from shared memory once per warp and 16 rows; 32 rows a warp halve that.
// Run: make step06     Look closer: make lab06 · make profile06
#pragma once
#include <algorithm>

#include "06_fused_attention/attention.hpp"
#include "06_fused_attention/online_row.cuh"
#include "06_fused_attention/tile_copy.cuh"

constexpr int kMmaWarps = 4, kMmaThreads = 32 * kMmaWarps;
constexpr int kMmaKeys = 64;  // keys of a tile

// MT tiles of 16 query rows a warp.
template <int D, int MT>
struct MmaTile {
  static constexpr int kRows = kMmaWarps * 16 * MT;
  // q's fragments stay in registers where 32 of those suffice; else they are read again for each key tile
  static constexpr bool kQueriesInRegisters = MT * D <= 128;
  static constexpr int kBlocks = MT == 1 && D <= 128 ? 3 : 2;  // blocks a multiprocessor has registers for
  static constexpr size_t kSharedBytes = 2 * size_t(D) * (kRows + 2 * kMmaKeys);
};

template <int D, int MT>
__global__ void __launch_bounds__(kMmaThreads, MmaTile<D, MT>::kBlocks) attention_mma_kernel(Attention<bfloat16> p) {
  using Tile = MmaTile<D, MT>;
  using Rows = SwizzledRows<D>;
  pdl_launch_dependents();
  constexpr int KEYS = kMmaKeys;
  bfloat16* const tile_q = dynamic_shared<bfloat16>();  // [kRows][D], swizzled
  bfloat16* const tile_k = tile_q + Tile::kRows * D;    // [KEYS][D]
  bfloat16* const tile_v = tile_k + KEYS * D;           // [KEYS][D]
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16 * MT;
  const int batch = blockIdx.x / p.heads, head = blockIdx.x % p.heads, kv_head = head / (p.heads / p.kv_heads);
  const int row0 = (p.causal ? gridDim.y - 1 - blockIdx.y : blockIdx.y) * Tile::kRows;  // causal: longest first
  const int64_t q_start = batch * p.q_batch_stride + head * p.q_head_stride;
  const int64_t kv_start = batch * p.kv_batch_stride + kv_head * p.kv_head_stride;
  const int keys = p.keys_seen(min(row0 + Tile::kRows, p.q_len) - 1);  // tiles beyond the last row's limit are skipped

  // Where this lane's row of a 16×16 patch lies. The 8×8 matrices of a patch are upper left, lower left, upper right,
  // lower right for q and v, and upper left, upper right, lower left, lower right for k: each time the pair that one mma
  // takes lies in neighbouring registers. Patch i to the right is 2i chunks on: within 64 columns the swizzle makes that
  // an exclusive or, beyond them it is a constant.
  const int patch = Rows::at(lane % 16, lane / 16), key_patch = Rows::at(lane / 16 * 8 + lane % 8, lane / 8 % 2);
  const auto right = [](int from, int i) { return (from ^ (i % 4 * 16)) + i / 4 * 64; };

  float out[MT][D / 8][4] = {};  // C fragments: rows lane/4 and lane/4 + 8, columns 2·(lane%4) and the next
  float top[MT][2], sum[MT][2] = {};
  for (int m = 0; m < MT; ++m) top[m][0] = top[m][1] = minus_infinity();
  const float c = p.scale * kLog2E;

  uint32_t a[Tile::kQueriesInRegisters ? D / 16 : 1][MT][4];
  const auto load_queries = [&](uint32_t(&fragment)[MT][4], int step) {
    for (int m = 0; m < MT; ++m) ldmatrix_x4(fragment[m], tile_q + (warp_row + 16 * m) * D + right(patch, step));
  };

  int key0 = (ceil_div(keys, KEYS) - 1) * KEYS;  // from the last tile backwards: the masked ones come first
  pdl_wait();
  copy_tile<Tile::kRows, D, kMmaThreads, Rows>(tile_q, p.q, q_start, p.q_row_stride, row0, p.q_len);
  copy_tile<KEYS, D, kMmaThreads, Rows>(tile_k, p.k, kv_start, p.kv_row_stride, max(key0, 0), p.kv_len);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  if constexpr (Tile::kQueriesInRegisters)
#pragma unroll
    for (int step = 0; step < D / 16; ++step) load_queries(a[step], step);

  for (; key0 >= 0; key0 -= KEYS) {
    cp_async_wait<0>();
    __syncthreads();  // this k tile is whole, and all warps are through with the v tile before
    copy_tile<KEYS, D, kMmaThreads, Rows>(tile_v, p.v, kv_start, p.kv_row_stride, key0, p.kv_len);
    cp_async_commit();  // v arrives while the scores are computed

    // [scores]
    float score[MT][KEYS / 8][4] = {};
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
      if constexpr (!Tile::kQueriesInRegisters) load_queries(a[0], step);
#pragma unroll
      for (int n = 0; n < KEYS / 16; ++n) {
        uint32_t b[4];
        ldmatrix_x4(b, tile_k + 16 * n * D + right(key_patch, step));
        const uint32_t upper[2] = {b[0], b[1]}, lower[2] = {b[2], b[3]};  // 8 keys each
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          mma_m16n8k16_bf16(score[m][2 * n], a[Tile::kQueriesInRegisters ? step : 0][m], upper);
          mma_m16n8k16_bf16(score[m][2 * n + 1], a[Tile::kQueriesInRegisters ? step : 0][m], lower);
        }
      }
    }
    // [/scores]
    cp_async_wait<0>();
    __syncthreads();  // the v tile is whole, and all warps are through with the k tile
    if (key0 > 0) copy_tile<KEYS, D, kMmaThreads, Rows>(tile_k, p.k, kv_start, p.kv_row_stride, key0 - KEYS, p.kv_len);
    cp_async_commit();  // the next k arrives during the softmax and the second product

    const int first_row = row0 + warp_row + lane / 4;
    if (p.key_mask || key0 + KEYS > p.keys_seen(row0 + warp_row)) {  // not every row of the warp sees every key
      int seen[MT][2];
      for (int m = 0; m < MT; ++m)
        for (int half = 0; half < 2; ++half) seen[m][half] = p.keys_seen(first_row + 16 * m + 8 * half);
#pragma unroll
      for (int n = 0; n < KEYS / 8; ++n)
        for (int e = 0; e < 2; ++e) {
          const int key = key0 + 8 * n + 2 * (lane % 4) + e;
          const bool padding = key >= p.kv_len || (p.key_mask && p.key_mask[int64_t(batch) * p.kv_len + key] == 0);
          for (int m = 0; m < MT; ++m)
            for (int half = 0; half < 2; ++half)
              if (padding || key >= seen[m][half]) score[m][n][2 * half + e] = minus_infinity();
        }
    }

    // [softmax]
    float most[MT][2];
    bool grown = false;
#pragma unroll
    for (int m = 0; m < MT; ++m)
      for (int half = 0; half < 2; ++half) {
        float value = minus_infinity();
        for (int n = 0; n < KEYS / 8; ++n)
          value = fmaxf(value, fmaxf(score[m][n][2 * half], score[m][n][2 * half + 1]));
        value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
        value = c * fmaxf(value, __shfl_xor_sync(~0u, value, 2));
        most[m][half] = value;
        grown = grown || value > top[m][half] + kHeadroom;
      }
    if (__any_sync(~0u, grown)) {
#pragma unroll
      for (int m = 0; m < MT; ++m)
        for (int half = 0; half < 2; ++half) {
          const float new_top = fmaxf(top[m][half], most[m][half]), factor = rescale(top[m][half], new_top);
          top[m][half] = new_top;
          sum[m][half] *= factor;
          for (int n = 0; n < D / 8; ++n) out[m][n][2 * half] *= factor, out[m][n][2 * half + 1] *= factor;
        }
    }
#pragma unroll
    for (int m = 0; m < MT; ++m)
      for (int half = 0; half < 2; ++half) {
        const float base = exponent_base(top[m][half]);
        for (int n = 0; n < KEYS / 8; ++n)
          for (int e = 0; e < 2; ++e) {
            float& s = score[m][n][2 * half + e];
            s = exp2_approx(fmaf(s, c, -base));
            sum[m][half] += s;
          }
      }
      // [/softmax]

      // [values]
#pragma unroll
    for (int step = 0; step < KEYS / 16; ++step) {
      uint32_t weight[MT][4];  // two neighbouring C fragments are one A fragment
#pragma unroll
      for (int m = 0; m < MT; ++m)
        for (int i = 0; i < 4; ++i)
          weight[m][i] = pack_bf16(score[m][2 * step + i / 2][i % 2 * 2], score[m][2 * step + i / 2][i % 2 * 2 + 1]);
#pragma unroll
      for (int n = 0; n < D / 16; ++n) {
        uint32_t b[4];
        ldmatrix_x4_trans(b, tile_v + 16 * step * D + right(patch, n));
        const uint32_t even[2] = {b[0], b[1]}, odd[2] = {b[2], b[3]};  // 8 columns each
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          mma_m16n8k16_bf16(out[m][2 * n], weight[m], even);
          mma_m16n8k16_bf16(out[m][2 * n + 1], weight[m], odd);
        }
      }
    }
    // [/values]
  }
  cp_async_wait<0>();

#pragma unroll
  for (int m = 0; m < MT; ++m)
    for (int half = 0; half < 2; ++half) {
      float total = sum[m][half];
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      const float inverse = inverse_sum(total);
      const int row = row0 + warp_row + 16 * m + 8 * half + lane / 4;
      if (row >= p.q_len) continue;
      bfloat16* const to = p.out + batch * p.out_batch_stride + head * p.out_head_stride + row * p.out_row_stride;
      for (int n = 0; n < D / 8; ++n)
        store_vec(to + 8 * n + 2 * (lane % 4),
                  pack_bf16(out[m][n][2 * half] * inverse, out[m][n][2 * half + 1] * inverse));
    }
}

// One form of the kernel; p.head_dim has to be D.
template <int D, int MT>
void attention_mma(Stream& stream, const Attention<bfloat16>& p, bool pdl = false) {
  using Tile = MmaTile<D, MT>;
  launch(attention_mma_kernel<D, MT>, dim3(unsigned(p.batch) * unsigned(p.heads), ceil_div(p.q_len, Tile::kRows)),
         dim3(kMmaThreads), on(stream).smem(Tile::kSharedBytes).pdl(pdl), p);
}

// Enqueues fused attention on the tensor cores: bfloat16 in and out, sums in float, weights rounded to bfloat16 before
// the second product. No memory beyond inputs and output. With `pdl` it may start before the kernel in front of it has
// ended (common/ptx.hpp). Throws BadInput (check_attention), and EnvironmentError where
// the card has no bfloat16 tensor cores (device().has_bf16_mma).
inline void attention_fused_mma(Stream& stream, const Attention<bfloat16>& p, bool pdl = false) {
  check_attention(p);
  if (!device().has_bf16_mma)
    throw EnvironmentError("attention_fused_mma: this card has no bfloat16 tensor cores (sm_80 and later have)");
  // tiles of 128 rows once they give every multiprocessor two blocks; below that, twice as many of 64 rows
  const double blocks = double(p.batch) * p.heads * ceil_div(p.q_len, MmaTile<64, 2>::kRows);
  const bool tall = p.q_len > MmaTile<64, 1>::kRows && blocks >= 2.0 * device().multiprocessors;
  if (p.head_dim == 64)
    tall ? attention_mma<64, 2>(stream, p, pdl) : attention_mma<64, 1>(stream, p, pdl);
  else if (p.head_dim == 128)
    tall ? attention_mma<128, 2>(stream, p, pdl) : attention_mma<128, 1>(stream, p, pdl);
  else
    attention_mma<256, 1>(stream, p, pdl);
}
