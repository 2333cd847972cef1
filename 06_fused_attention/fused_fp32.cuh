// 06 · fused attention on the CUDA cores
//
// Against the unfused form: scores live in registers, tile by tile, and never in memory; the softmax follows along
// (online_row.cuh). One block per tile of queries; K and V tiles come by cp.async, each while the other is worked on.
// Predict: both products are register-tiled as in step 02: with 8×8 outputs a thread, 16 shared-memory reads of 16 bytes
//          feed 256 multiply-adds. Arithmetic is the bound; memory moves q, k, v and out once, plus K and V from L2.
// Run: make step06     Look closer: make lab06 · make profile06
#pragma once
#include <algorithm>

#include "06_fused_attention/attention.hpp"
#include "06_fused_attention/online_row.cuh"
#include "06_fused_attention/tile_copy.cuh"

// Sizes of one form of the kernel. A warp owns 4·RT whole rows: 4 lanes down, 8 lanes across; RT rows and KEYS/8 scores
// a lane.
template <class T, int D, int RT, int KEYS, int WARPS>
struct SimtTile {
  static constexpr int kThreads = 32 * WARPS, kWarpRows = 4 * RT, kRows = WARPS * kWarpRows;
  static constexpr int kPitch = PaddedRows<T, D>::kPitch;    // of q and k rows
  static constexpr int kWeightKeys = KEYS < 32 ? KEYS : 32;  // weights pass through shared memory in such pieces
  static constexpr int kWeightPitch = kWeightKeys + 8;       // 4 rows of a store in 4 different groups of 8 banks
  static constexpr size_t kSharedBytes =
      sizeof(T) * ((kRows + KEYS) * kPitch + KEYS * D) + sizeof(float) * kRows * kWeightPitch;
  static_assert(KEYS % kWeightKeys == 0 && KEYS % 8 == 0, "8 lanes share the keys of a tile evenly");
  static_assert(D % 32 == 0, "8 lanes share the columns of the output in groups of 4");
};

__device__ __forceinline__ void load_4(float (&to)[4], const float* from) {
  const float4 v = load_vec<float4>(from);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
__device__ __forceinline__ void load_4(float (&to)[4], const bfloat16* from) {
  const uint2 v = load_vec<uint2>(from);
  const float2 low = unpack_bf16(v.x), high = unpack_bf16(v.y);
  to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
}
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
  using Tile = SimtTile<T, D, RT, KEYS, WARPS>;
  constexpr int NJ = KEYS / 8, NC = D / 32;  // scores and groups of 4 output columns of one row that a lane holds
  T* const tile_q = dynamic_shared<T>();     // [kRows][kPitch]
  T* const tile_k = tile_q + Tile::kRows * Tile::kPitch;  // [KEYS][kPitch]
  T* const tile_v = tile_k + KEYS * Tile::kPitch;         // [KEYS][D]
  const int lane = threadIdx.x % 32;
  // Bit 0 of the lane belongs to the column and bit 1 to the row: for q the lanes l and l^1 read the same address, for
  // k and v the lanes l and l^2. Such 16-byte reads are served two quarter-warps at a time: 2 wavefronts, not 4.
  const int tx = (lane & 1) | (lane >> 1 & 6), ty = (lane >> 1 & 1) | (lane >> 3 & 2);
  const int warp_row = threadIdx.x / 32 * Tile::kWarpRows;
  float* const weights = reinterpret_cast<float*>(tile_v + KEYS * D) + warp_row * Tile::kWeightPitch;  // this warp's

  const int batch = blockIdx.x / p.heads, head = blockIdx.x % p.heads, kv_head = head / (p.heads / p.kv_heads);
  const int row0 = (p.causal ? gridDim.y - 1 - blockIdx.y : blockIdx.y) * Tile::kRows;  // causal: longest first
  const int64_t q_start = batch * p.q_batch_stride + head * p.q_head_stride;
  const int64_t kv_start = batch * p.kv_batch_stride + kv_head * p.kv_head_stride;
  const int keys = p.keys_seen(min(row0 + Tile::kRows, p.q_len) - 1);  // tiles beyond the last row's limit are skipped

  float out[RT][4 * NC], top[RT], sum[RT];
#pragma unroll
  for (int i = 0; i < RT; ++i) {
    top[i] = minus_infinity();
    sum[i] = 0.f;
    for (int c = 0; c < 4 * NC; ++c) out[i][c] = 0.f;
  }
  const float c = p.scale * kLog2E;

  copy_tile<Tile::kRows, D, Tile::kThreads, PaddedRows<T, D>>(tile_q, p.q, q_start, p.q_row_stride, row0, p.q_len);
  copy_tile<KEYS, D, Tile::kThreads, PaddedRows<T, D>>(tile_k, p.k, kv_start, p.kv_row_stride, 0, p.kv_len);
  cp_async_commit();
  for (int key0 = 0; key0 < keys; key0 += KEYS) {
    cp_async_wait<0>();
    __syncthreads();  // q and this k tile are whole, and all warps are through with the v tile before
    copy_tile<KEYS, D, Tile::kThreads, PackedRows<T, D>>(tile_v, p.v, kv_start, p.kv_row_stride, key0, p.kv_len);
    cp_async_commit();  // v arrives while the scores are computed

    // [scores]
    float score[RT][NJ] = {};
#pragma unroll 4
    for (int d = 0; d < D; d += 4) {
      float a[RT][4], b[4];
#pragma unroll
      for (int i = 0; i < RT; ++i) load_4(a[i], tile_q + (warp_row + ty + 4 * i) * Tile::kPitch + d);
#pragma unroll
      for (int j = 0; j < NJ; ++j) {
        load_4(b, tile_k + (tx + 8 * j) * Tile::kPitch + d);
#pragma unroll
        for (int i = 0; i < RT; ++i)
          for (int e = 0; e < 4; ++e) score[i][j] += a[i][e] * b[e];
      }
    }
    // [/scores]
    cp_async_wait<0>();
    __syncthreads();  // the v tile is whole, and all warps are through with the k tile
    if (key0 + KEYS < keys)
      copy_tile<KEYS, D, Tile::kThreads, PaddedRows<T, D>>(tile_k, p.k, kv_start, p.kv_row_stride, key0 + KEYS,
                                                           p.kv_len);
    cp_async_commit();  // the next k arrives during the softmax and the second product

    // [mask]
    if (p.key_mask || key0 + KEYS > p.keys_seen(row0 + warp_row)) {  // not every row of the warp sees every key
      for (int j = 0; j < NJ; ++j) {
        const int key = key0 + tx + 8 * j;
        const bool padding = key >= p.kv_len || (p.key_mask && p.key_mask[int64_t(batch) * p.kv_len + key] == 0);
        for (int i = 0; i < RT; ++i)
          if (padding || key >= p.keys_seen(row0 + warp_row + ty + 4 * i)) score[i][j] = minus_infinity();
      }
    }
    // [/mask]

    // [softmax]
#pragma unroll
    for (int i = 0; i < RT; ++i) {
      float most = score[i][0];
      for (int j = 1; j < NJ; ++j) most = fmaxf(most, score[i][j]);
      most = across_row(most, [](float x, float y) { return fmaxf(x, y); });
      const float new_top = fmaxf(top[i], c * most), factor = rescale(top[i], new_top), base = exponent_base(new_top);
      top[i] = new_top;
      sum[i] *= factor;
      for (int col = 0; col < 4 * NC; ++col) out[i][col] *= factor;
      for (int j = 0; j < NJ; ++j) {
        score[i][j] = exp2_approx(fmaf(score[i][j], c, -base));
        sum[i] += score[i][j];
      }
    }
    // [/softmax]

    // The weights change their layout through shared memory; a warp reads only its own rows, so __syncwarp is enough.
#pragma unroll
    for (int piece = 0; piece < KEYS / Tile::kWeightKeys; ++piece) {
#pragma unroll
      for (int i = 0; i < RT; ++i)
        for (int j = 0; j < Tile::kWeightKeys / 8; ++j)
          weights[(ty + 4 * i) * Tile::kWeightPitch + tx + 8 * j] = score[i][piece * (Tile::kWeightKeys / 8) + j];
      __syncwarp();
#pragma unroll 2
      for (int key = 0; key < Tile::kWeightKeys; key += 4) {
        float a[RT][4], b[4];
#pragma unroll
        for (int i = 0; i < RT; ++i) load_4(a[i], weights + (ty + 4 * i) * Tile::kWeightPitch + key);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          for (int col = 0; col < NC; ++col) {
            load_4(b, tile_v + (piece * Tile::kWeightKeys + key + e) * D + 32 * col + 4 * tx);
#pragma unroll
            for (int i = 0; i < RT; ++i)
              for (int f = 0; f < 4; ++f) out[i][4 * col + f] += a[i][e] * b[f];
          }
      }
      __syncwarp();  // all lanes have read this piece before the next overwrites it
    }
  }
  cp_async_wait<0>();

#pragma unroll
  for (int i = 0; i < RT; ++i) {
    const float inverse = inverse_sum(across_row(sum[i], [](float x, float y) { return x + y; }));
    for (int col = 0; col < 4 * NC; ++col) out[i][col] *= inverse;
    const int row = row0 + warp_row + ty + 4 * i;
    if (row >= p.q_len) continue;
    T* const to = p.out + batch * p.out_batch_stride + head * p.out_head_stride + row * p.out_row_stride;
    for (int col = 0; col < NC; ++col) store_4(to + 32 * col + 4 * tx, out[i] + 4 * col);
  }
}

// One form of the kernel for one head dimension; p.head_dim has to be D.
template <class T, int D, int RT, int KEYS, int WARPS>
void attention_simt(Stream& stream, const Attention<T>& p) {
  using Tile = SimtTile<T, D, RT, KEYS, WARPS>;
  launch(attention_simt_kernel<T, D, RT, KEYS, WARPS>,
         dim3(unsigned(p.batch) * unsigned(p.heads), ceil_div(p.q_len, Tile::kRows)), dim3(Tile::kThreads),
         on(stream).smem(Tile::kSharedBytes), p);
}

// Forms that fit into the 64 KB of shared memory a block gets on sm_75.
inline void attention_simt_small(Stream& stream, const Attention<float>& p) {
  if (p.head_dim == 64)
    attention_simt<float, 64, 8, 64, 2>(stream, p);
  else if (p.head_dim == 128)
    attention_simt<float, 128, 4, 32, 2>(stream, p);
  else
    attention_simt<float, 256, 4, 8, 2>(stream, p);
}
inline void attention_simt_small(Stream& stream, const Attention<bfloat16>& p) {
  if (p.head_dim == 64)
    attention_simt<bfloat16, 64, 8, 32, 4>(stream, p);
  else if (p.head_dim == 128)
    attention_simt<bfloat16, 128, 4, 64, 4>(stream, p);
  else
    attention_simt<bfloat16, 256, 4, 32, 2>(stream, p);
}

// Larger tiles: each key and value is read by more queries.
inline void attention_simt_large(Stream& stream, const Attention<float>& p) {
  if (p.head_dim == 64)
    attention_simt<float, 64, 8, 64, 4>(stream, p);
  else if (p.head_dim == 128)
    attention_simt<float, 128, 4, 64, 4>(stream, p);
  else
    attention_simt<float, 256, 4, 32, 4>(stream, p);
}
inline bool attention_simt_large_fits(int head_dim) {
  const size_t needed = head_dim == 64    ? SimtTile<float, 64, 8, 64, 4>::kSharedBytes
                        : head_dim == 128 ? SimtTile<float, 128, 4, 64, 4>::kSharedBytes
                                          : SimtTile<float, 256, 4, 32, 4>::kSharedBytes;
  return needed <= device().shared_bytes_per_block;
}

// Enqueues fused attention on the CUDA cores, sums in float; T is float or bfloat16. No memory beyond inputs and
// output. Throws BadInput (check_attention).
template <class T>
void attention_fused_fp32(Stream& stream, const Attention<T>& p) {
  check_attention(p);
  if constexpr (sizeof(T) == sizeof(float)) {
    if (attention_simt_large_fits(p.head_dim)) return attention_simt_large(stream, p);
  }
  attention_simt_small(stream, p);
}
