// 06 · fused attention on the CUDA cores
//
// Against the unfused form: scores live in registers, tile by tile, and never in memory; the softmax follows along
// (online_row.cuh). One block per tile of queries; K and V tiles come by cp.async, each while the other is worked on.
// Predict: both products are step 04's register tile: for each k, 4 reads of 16 bytes a lane, 2 wavefronts each, feed 64
//          multiply-adds. Arithmetic is the bound, and in it the register file: in the compiled loop (nvcc 13.0, sm_90a, head
//          dimension 64) 16 other instructions and 15 bank conflicts stand beside 128 FMAs. Memory moves q, k, v and out once,
//          plus K and V from L2.
// Run: make step06     Look closer: make lab06 · make profile06
#pragma once
#include <algorithm>

#include "06_fused_attention/attention.hpp"
#include "06_fused_attention/online_row.cuh"
#include "06_fused_attention/simt_tile.cuh"

__device__ __forceinline__ void store_4(float* to, const float* v) {
  store_vec(to, make_float4(v[0], v[1], v[2], v[3]));
}
__device__ __forceinline__ void store_4(bfloat16* to, const float* v) {
  store_vec(to, make_uint2(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3])));
}

// Over the 8 lanes that share a row; their numbers differ in bits 0, 2 and 3 (below).
template <class Join>
__device__ __forceinline__ float across_row(float v, Join join) {
  v = join(v, __shfl_xor_sync(~0u, v, 1));
  v = join(v, __shfl_xor_sync(~0u, v, 4));
  return join(v, __shfl_xor_sync(~0u, v, 8));
}

template <class T, int D, int RT, int KEYS, int WARPS>
__global__ void __launch_bounds__(32 * WARPS, 1) attention_simt_kernel(Attention<T> p) {
  using Tile = SimtTile<D, RT, KEYS, WARPS>;
  using Rows = Share<RT, 4>;
  using Keys = Share<Tile::kScores, 8>;
  using Columns = Share<Tile::kColumns, 8>;
  float* const tile_q = dynamic_shared<float>();     // [D][kPitchQ]
  float* const tile_k = tile_q + D * Tile::kPitchQ;  // [D][kPitchK]
  float* const tile_v = tile_k + D * Tile::kPitchK;  // [KEYS][D]
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warp_row = warp * Tile::kWarpRows;
  float* const weights = tile_v + KEYS * D + warp * (Tile::kPieceKeys * Tile::kPitchWeights);  // this warp's
  // Bit 0 of the lane belongs to the column and bit 1 to the row: for the left operand the lanes l and l^1 read the same
  // address, for the right one l and l^2. Such 16-byte reads are served two quarter-warps at a time: 2 wavefronts, not 4.
  const int x = (lane & 1) | (lane >> 1 & 6), y = (lane >> 1 & 1) | (lane >> 3 & 2);

  const int batch = blockIdx.x / p.heads, head = blockIdx.x % p.heads, kv_head = head / (p.heads / p.kv_heads);
  const int row0 = (p.causal ? gridDim.y - 1 - blockIdx.y : blockIdx.y) * Tile::kRows;  // causal: longest first
  const int64_t q_start = batch * p.q_batch_stride + head * p.q_head_stride;
  const int64_t kv_start = batch * p.kv_batch_stride + kv_head * p.kv_head_stride;
  const int keys = p.keys_seen(min(row0 + Tile::kRows, p.q_len) - 1);  // tiles beyond the last row's limit are skipped

  float out[RT][Tile::kColumns] = {}, top[RT], sum[RT] = {};
#pragma unroll
  for (int i = 0; i < RT; ++i) top[i] = minus_infinity();
  const float c = p.scale * kLog2E;

  copy_transposed<Tile::kRows, D, Tile::kThreads, Tile::kPitchQ>(tile_q, p.q, q_start, p.q_row_stride, row0, p.q_len);
  copy_transposed<KEYS, D, Tile::kThreads, Tile::kPitchK>(tile_k, p.k, kv_start, p.kv_row_stride, 0, p.kv_len);
  cp_async_commit();
  for (int key0 = 0; key0 < keys; key0 += KEYS) {
    cp_async_wait<0>();
    __syncthreads();  // q and this k tile are whole, and all warps are through with the v tile before
    copy_rows<KEYS, D, Tile::kThreads>(tile_v, p.v, kv_start, p.kv_row_stride, key0, p.kv_len);
    cp_async_commit();  // v arrives while the scores are computed

    float score[RT][Tile::kScores] = {};
    add_product<D>(score, tile_q + warp_row, Tile::kPitchQ, y, tile_k, Tile::kPitchK, x);
    cp_async_wait<0>();
    __syncthreads();  // the v tile is whole, and all warps are through with the k tile
    if (key0 + KEYS < keys)
      copy_transposed<KEYS, D, Tile::kThreads, Tile::kPitchK>(tile_k, p.k, kv_start, p.kv_row_stride, key0 + KEYS,
                                                              p.kv_len);
    cp_async_commit();  // the next k arrives during the softmax and the second product

    // [mask]
    if (p.key_mask || key0 + KEYS > p.keys_seen(row0 + warp_row)) {  // not every row of the warp sees every key
      for (int j = 0; j < Tile::kScores; ++j) {
        const int key = key0 + Keys::index(x, j);
        const bool padding = key >= p.kv_len || (p.key_mask && p.key_mask[int64_t(batch) * p.kv_len + key] == 0);
        for (int i = 0; i < RT; ++i)
          if (padding || key >= p.keys_seen(row0 + warp_row + Rows::index(y, i))) score[i][j] = minus_infinity();
      }
    }
    // [/mask]

    // [softmax]
#pragma unroll
    for (int i = 0; i < RT; ++i) {
      float most = score[i][0];
      for (int j = 1; j < Tile::kScores; ++j) most = fmaxf(most, score[i][j]);
      most = across_row(most, [](float u, float v) { return fmaxf(u, v); });
      const float new_top = fmaxf(top[i], c * most), factor = rescale(top[i], new_top), base = exponent_base(new_top);
      top[i] = new_top;
      sum[i] *= factor;
      for (int j = 0; j < Tile::kColumns; ++j) out[i][j] *= factor;
      for (int j = 0; j < Tile::kScores; ++j) {
        score[i][j] = exp2_approx(fmaf(score[i][j], c, -base));
        sum[i] += score[i][j];
      }
    }
    // [/softmax]

    // The weights change their layout through shared memory; a warp reads only its own rows, so __syncwarp is enough.
#pragma unroll
    for (int piece = 0; piece < KEYS / Tile::kPieceKeys; ++piece) {
      constexpr int kScores = Tile::kPieceKeys / 8;  // of a piece
#pragma unroll
      for (int j = 0; j < kScores; ++j)
#pragma unroll
        for (int i = 0; i < RT; i += 4) {
          const int s = piece * kScores + j;
          store_vec(weights + Keys::index(x, j) * Tile::kPitchWeights + Rows::index(y, i),
                    make_float4(score[i][s], score[i + 1][s], score[i + 2][s], score[i + 3][s]));
        }
      __syncwarp();
      add_product<Tile::kPieceKeys>(out, weights, Tile::kPitchWeights, y, tile_v + piece * Tile::kPieceKeys * D, D, x);
      __syncwarp();  // all lanes have read this piece before the next overwrites it
    }
  }
  cp_async_wait<0>();

#pragma unroll
  for (int i = 0; i < RT; ++i) {
    const float inverse = inverse_sum(across_row(sum[i], [](float u, float v) { return u + v; }));
    for (int j = 0; j < Tile::kColumns; ++j) out[i][j] *= inverse;
    const int row = row0 + warp_row + Rows::index(y, i);
    if (row >= p.q_len) continue;
    T* const to = p.out + batch * p.out_batch_stride + head * p.out_head_stride + row * p.out_row_stride;
    for (int j = 0; j < Tile::kColumns; j += 4) store_4(to + Columns::index(x, j), out[i] + j);
  }
}

// One form of the kernel for one head dimension; p.head_dim has to be D.
template <class T, int D, int RT, int KEYS, int WARPS>
void attention_simt(Stream& stream, const Attention<T>& p) {
  using Tile = SimtTile<D, RT, KEYS, WARPS>;
  launch(attention_simt_kernel<T, D, RT, KEYS, WARPS>,
         dim3(unsigned(p.batch) * unsigned(p.heads), ceil_div(p.q_len, Tile::kRows)), dim3(Tile::kThreads),
         on(stream).smem(Tile::kSharedBytes), p);
}

// Forms that fit into the 64 KB of shared memory a block gets on sm_75.
template <class T>
void attention_simt_small(Stream& stream, const Attention<T>& p) {
  if (p.head_dim == 64)
    attention_simt<T, 64, 8, 64, 2>(stream, p);
  else if (p.head_dim == 128)
    attention_simt<T, 128, 4, 32, 2>(stream, p);
  else
    attention_simt<T, 256, 4, 8, 2>(stream, p);
}

// Larger tiles: each key and value is read by more queries.
template <class T>
void attention_simt_large(Stream& stream, const Attention<T>& p) {
  if (p.head_dim == 64)
    attention_simt<T, 64, 8, 64, 4>(stream, p);
  else if (p.head_dim == 128)
    attention_simt<T, 128, 4, 64, 4>(stream, p);
  else
    attention_simt<T, 256, 4, 32, 4>(stream, p);
}
inline bool attention_simt_large_fits(int head_dim) {
  const size_t needed = head_dim == 64    ? SimtTile<64, 8, 64, 4>::kSharedBytes
                        : head_dim == 128 ? SimtTile<128, 4, 64, 4>::kSharedBytes
                                          : SimtTile<256, 4, 32, 4>::kSharedBytes;
  return needed <= device().shared_bytes_per_block;
}

// Enqueues fused attention on the CUDA cores, sums in float; T is float or bfloat16. No memory beyond inputs and
// output. Throws BadInput (check_attention).
template <class T>
void attention_fused_fp32(Stream& stream, const Attention<T>& p) {
  check_attention(p);
  if (attention_simt_large_fits(p.head_dim))
    attention_simt_large(stream, p);
  else
    attention_simt_small(stream, p);
}
