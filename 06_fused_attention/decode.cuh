// 06 · attention of one query: the kernel on CUDA cores, and the launcher (decode_split.cuh has the idea and the parts)
#pragma once
#include "06_fused_attention/decode_mma.cuh"

// HEADS slots for query heads; those behind the group's last compute zeros that nobody stores.
template <int D, int HEADS>
__global__ void __launch_bounds__(kDecodeThreads, HEADS == 8 ? 2 : 4) attention_decode_kernel(DecodeWork w) {
  constexpr int LANES = D / 8;                                // lanes that share a row, 16 bytes each
  constexpr int GROUPS = 32 / LANES;                          // rows a warp reads at once
  constexpr int STEP = kDecodeWarps * GROUPS * kDecodeBatch;  // keys a block takes per turn
  static_assert(kDecodeBatch == 4 && LANES % 4 == 0, "a quarter of the row's lanes ends up with the score of one key");
  pdl_launch_dependents();
  pdl_wait();  // kv_len, q and the newest row of the cache are from the kernels before
  const DecodeAttention& p = w.p;
  const int keys = min(max(*p.kv_len, 0), p.capacity);
  const int share = keys_per_split(keys, gridDim.x, STEP, STEP), active = max(1, ceil_div(keys, share));
  if (static_cast<int>(blockIdx.x) >= active) return;  // the whole block

  const int lane = threadIdx.x % 32, in_row = lane % LANES, slot = in_row / (LANES / 4);
  const int blocks_a_kv_head = ceil_div(w.group, kMostHeadsAtOnce), part = blockIdx.y % blocks_a_kv_head;
  const int kv_head = blockIdx.y / blocks_a_kv_head, head0 = kv_head * w.group + part * kMostHeadsAtOnce;
  const int heads = min(HEADS, w.group - part * kMostHeadsAtOnce);
  const int begin = blockIdx.x * share, end = min(keys, begin + share), steps = ceil_div(end - begin, STEP);
  const int first_key = begin + (threadIdx.x / 32 * GROUPS + lane / LANES) * kDecodeBatch;
  const size_t row0 = size_t(kv_head) * p.capacity * D + in_row * 8;

  // [ring]
  uint4* const ring = dynamic_shared<uint4>() + threadIdx.x;  // [stage][K, V][batch][thread]: only this thread's pieces
  const auto piece = [&](int step, int which, int b) {
    return ring + ((step % kDecodeStages * 2 + which) * kDecodeBatch + b) * kDecodeThreads;
  };
  const auto fetch = [&](int step) {
    for (int b = 0; b < kDecodeBatch; ++b) {
      const int key = first_key + step * STEP + b;
      const bool valid = step < steps && key < end;
      const size_t from = row0 + (valid ? size_t(key) * D : 0);
      cp_async_16(piece(step, 0, b), p.k + from, valid);
      cp_async_16(piece(step, 1, b), p.v + from, valid);
    }
    cp_async_commit();
  };
  for (int step = 0; step < kDecodeStages - 1; ++step) fetch(step);
  // [/ring]

  float q[HEADS][8], sum_v[HEADS][8], top[HEADS], sum[HEADS];
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    unpack_8(q[h], h < heads ? load_vec<uint4>(p.q + size_t(head0 + h) * D + in_row * 8) : make_uint4(0, 0, 0, 0));
    for (int i = 0; i < 8; ++i) q[h][i] *= p.scale * kLog2E, sum_v[h][i] = 0.f;
    top[h] = minus_infinity();
    sum[h] = 0.f;
  }

  for (int step = 0; step < steps; ++step) {
    fetch(step + kDecodeStages - 1);
    cp_async_wait<kDecodeStages - 1>();  // this step's pieces have arrived; a thread reads its own only
    float partial[kDecodeBatch][HEADS];
#pragma unroll
    for (int b = 0; b < kDecodeBatch; ++b) {
      float k[8];
      unpack_8(k, load_vec<uint4>(piece(step, 0, b)));
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        partial[b][h] = 0.f;
        for (int i = 0; i < 8; ++i) partial[b][h] += q[h][i] * k[i];
      }
    }
    // [scatter]
    // Four keys to add up over LANES lanes: each half of the lanes keeps two of the keys, each quarter one. 3 + log2(LANES/4)
    // shuffles a head instead of 4·log2(LANES).
    const bool upper = slot / 2, odd = slot % 2;
    const bool visible = first_key + step * STEP + slot < end;
    float weight[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      float two[2];
      for (int j = 0; j < 2; ++j) {
        const float kept = upper ? partial[2 + j][h] : partial[j][h], given = upper ? partial[j][h] : partial[2 + j][h];
        two[j] = kept + __shfl_xor_sync(~0u, given, LANES / 2);
      }
      float score = (odd ? two[1] : two[0]) + __shfl_xor_sync(~0u, odd ? two[0] : two[1], LANES / 4);
      for (int offset = LANES / 8; offset > 0; offset /= 2) score += __shfl_xor_sync(~0u, score, offset);
      if (!visible) score = minus_infinity();
      // [/scatter]
      float new_top = fmaxf(score, __shfl_xor_sync(~0u, score, LANES / 2));
      new_top = fmaxf(top[h], fmaxf(new_top, __shfl_xor_sync(~0u, new_top, LANES / 4)));
      const float factor = rescale(top[h], new_top);
      top[h] = new_top;
      weight[h] = exp2_approx(score - exponent_base(new_top));
      sum[h] = sum[h] * factor + weight[h];
      for (int i = 0; i < 8; ++i) sum_v[h][i] *= factor;
    }
#pragma unroll
    for (int b = 0; b < kDecodeBatch; ++b) {
      float v[8];
      unpack_8(v, load_vec<uint4>(piece(step, 1, b)));
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        const float shared_weight = __shfl_sync(~0u, weight[h], b * (LANES / 4), LANES);
        for (int i = 0; i < 8; ++i) sum_v[h][i] += shared_weight * v[i];
      }
    }
  }
  cp_async_wait<0>();  // the zero-filled pieces behind the last step too: the ring becomes the block's scratch below

  // Rows of a warp into one, then warps.
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    sum[h] += __shfl_xor_sync(~0u, sum[h], LANES / 2);
    sum[h] += __shfl_xor_sync(~0u, sum[h], LANES / 4);
    for (int offset = LANES; offset < 32; offset *= 2) {
      const float new_top = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], offset)), factor = rescale(top[h], new_top);
      top[h] = new_top;
      sum[h] = sum[h] * factor + __shfl_xor_sync(~0u, sum[h] * factor, offset);
      for (int i = 0; i < 8; ++i)
        sum_v[h][i] = sum_v[h][i] * factor + __shfl_xor_sync(~0u, sum_v[h][i] * factor, offset);
    }
  }
  float* const warp_sums = dynamic_shared<float>();                                           // [warp][HEADS][D]
  float2* const warp_tops = reinterpret_cast<float2*>(warp_sums + kDecodeWarps * HEADS * D);  // [warp][HEADS]
  static_assert(size_t(kDecodeWarps) * HEADS * (D * 4 + 8) <= kDecodeSharedBytes, "both fit into the ring's memory");
  static_assert(kMostSplits * kMostHeadsAtOnce * 4 + kDecodeThreads * 16 <= kDecodeSharedBytes,
                "so does the combination");
  __syncthreads();  // nobody reads the ring any more
  const int warp_row = threadIdx.x / 32 * HEADS;
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    if (lane == 0) warp_tops[warp_row + h] = make_float2(top[h], sum[h]);
    if (lane >= LANES) continue;
    float* to = warp_sums + (warp_row + h) * D + in_row * 8;
    store_vec(to, make_float4(sum_v[h][0], sum_v[h][1], sum_v[h][2], sum_v[h][3]));
    store_vec(to + 4, make_float4(sum_v[h][4], sum_v[h][5], sum_v[h][6], sum_v[h][7]));
  }
  decode_finish<D, kDecodeWarps>(w, warp_sums, warp_tops, HEADS, D, active, heads, head0);
}

template <int D>
void attention_decode_heads(Stream& stream, const DecodeWork& work, const DecodeScratch& scratch, bool pdl) {
  if (scratch.tensor_cores) return attention_decode_mma<D>(stream, work, scratch, pdl);
  const int slots = work.row_stride;
  const auto kernel = slots == 1   ? attention_decode_kernel<D, 1>
                      : slots == 2 ? attention_decode_kernel<D, 2>
                      : slots <= 4 ? attention_decode_kernel<D, 4>
                                   : attention_decode_kernel<D, 8>;
  launch(kernel, dim3(scratch.splits, scratch.row_blocks), dim3(kDecodeThreads),
         on(stream).smem(kDecodeSharedBytes).pdl(pdl), work);
}

// Enqueues out = softmax(scale · q Kᵀ) V for one query, one kernel; kv_len = 0 gives 0. The grid depends on the scratch
// alone, so the launch may be captured and replayed while *kv_len grows. With `pdl` it may start before the kernel in
// front of it has ended (common/ptx.hpp). Throws BadInput for shapes the scratch was not made for.
inline void attention_decode(Stream& stream, const DecodeAttention& p, DecodeScratch& scratch, bool pdl = false) {
  check_heads(p.heads, p.kv_heads, p.head_dim);
  const int group = p.heads / p.kv_heads, row_stride = std::min(group, kMostHeadsAtOnce);
  if (p.capacity < 1 || scratch.row_blocks != p.kv_heads * ceil_div(group, kMostHeadsAtOnce) ||
      scratch.sums.size() != scratch.tops.size() * size_t(p.head_dim) ||
      scratch.tops.size() != size_t(scratch.row_blocks) * size_t(scratch.splits) * size_t(row_stride))
    throw BadInput(fmt::format("attention_decode: {} heads, {} KV heads, head_dim {}: the scratch is for another shape",
                               p.heads, p.kv_heads, p.head_dim));
  const DecodeWork work{p,     scratch.sums.data(), scratch.tops.data(), scratch.arrived.data(),
                        group, row_stride,          scratch.alone_keys};
  if (p.head_dim == 64)
    attention_decode_heads<64>(stream, work, scratch, pdl);
  else if (p.head_dim == 128)
    attention_decode_heads<128>(stream, work, scratch, pdl);
  else
    attention_decode_heads<256>(stream, work, scratch, pdl);
}
