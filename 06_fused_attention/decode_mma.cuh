// 06 · attention of one query on tensor cores (decode_split.cuh has the idea and the parts)
//
// Against the kernel on CUDA cores (decode.cuh): there a key costs each query head 2·head_dim multiplications, two
// conversions and its share of five shuffles, and a block of four warps is bound by the instructions it can issue. Here
// the group's query heads are rows of the A operand; 16 keys cost 32 mma and 16 loads from shared memory, whatever the
// group. Half the A operand's 16 rows would stay empty; they carry what rounding the weights to bfloat16 loses:
//   row h: bf16(p)      row h + 8: bf16(p − bf16(p))      their sum in the output: p to 16 bits, at no further mma.
//
// Keys ahead. Under dependent launch this kernel may start while the kernels in front of it have only started, any
// number of them: without pdl_wait() nothing that the chain writes may be read. Old keys are not written by the chain: the
// first kernel of a decode step is started without dependent launch (or is the root of a graph), so it starts after
// everything before it has ended and is visible; every other kernel of the step starts after its predecessor has
// started, hence after that as well. Rows 0 … kv_len − 2 and kv_len itself were written before this step: they are
// fetched before the wait, into the time of the qkv projection. Row kv_len − 1 and q are the projection's: after it.
#pragma once
#include "06_fused_attention/decode_split.cuh"

constexpr int kDecodeTile = 16;      // keys of a warp's turn
constexpr int kDecodeMmaStages = 2;  // tiles a warp has in its ring

template <int D, int kWarps>
constexpr size_t kDecodeMmaBytes = size_t(kDecodeMmaStages) * kWarps * 2 * kDecodeTile* D * sizeof(bfloat16);

// 16-byte pieces of a row are stored at piece ^ swap(row): two neighbouring rows then differ in the half of 128 bytes
// (four lanes of a row, two rows, is what eight lanes of a 16-byte load read), and eight rows in the piece (ldmatrix).
__device__ __forceinline__ int decode_swap(int row) { return (row & 1) << 2 | (row >> 1 & 3); }

template <int D, int kWarps>
__global__ void __launch_bounds__(32 * kWarps, D == 64 ? 2 : 1) attention_decode_mma_kernel(DecodeWork w) {
  constexpr int STEP = kWarps * kDecodeTile;  // keys a block takes per turn
  constexpr int PIECES = D / 8;               // of a row
  static_assert(kDecodeMmaStages == 2, "the two fetches before the loop, and the group that may stay under way in it");
  static_assert(D % 64 == 0, "decode_swap permutes eight pieces");
  pdl_launch_dependents();
  const DecodeAttention& p = w.p;
  if (!p.keys_settled) pdl_wait();
  const int keys = min(max(*p.kv_len, 0), p.capacity), newest = keys - 1;
  const int share = keys_per_split(keys, keys <= w.alone_keys ? 1 : gridDim.x, STEP, kDecodeTile);
  const int active = max(1, ceil_div(keys, share));
  // The whole block. It need not wait: the blocks that stay do, so the grid does not end before its predecessor.
  if (static_cast<int>(blockIdx.x) >= active) return;

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int blocks_a_kv_head = ceil_div(w.group, kMostHeadsAtOnce), part = blockIdx.y % blocks_a_kv_head;
  const int kv_head = blockIdx.y / blocks_a_kv_head, head0 = kv_head * w.group + part * kMostHeadsAtOnce;
  const int heads = min(kMostHeadsAtOnce, w.group - part * kMostHeadsAtOnce);
  const int begin = blockIdx.x * share, end = min(keys, begin + share);
  const size_t row0 = size_t(kv_head) * p.capacity * D;

  // [keys_ahead]
  bfloat16* const ring = dynamic_shared<bfloat16>() + warp * (kDecodeMmaStages * 2 * kDecodeTile * D);
  const auto tile = [&](int step, int which) { return ring + (step % kDecodeMmaStages * 2 + which) * kDecodeTile * D; };
  const auto first_key = [&](int step) { return begin + step * STEP + warp * kDecodeTile; };
  const auto fetch = [&](int step, bool with_newest) {
    if (first_key(step) < end)  // the whole warp
#pragma unroll
      for (int i = 0; i < 2 * kDecodeTile * PIECES; i += 32) {
        const int which = i / (kDecodeTile * PIECES), at = i % (kDecodeTile * PIECES) + lane;
        const int row = at / PIECES, piece = at % PIECES, key = first_key(step) + row;
        const bool valid = key < end;
        const bfloat16* from = (which ? p.v : p.k) + row0 + (valid ? size_t(key) * D : 0) + piece * 8;
        if (with_newest || key != newest)
          cp_async_16(tile(step, which) + row * D + 8 * (piece ^ decode_swap(row)), from, valid);
      }
    cp_async_commit();
  };
  fetch(0, false);
  fetch(1, false);
  if (p.keys_settled) pdl_wait();
  // [/keys_ahead]

  // K may be permuted in the mma as long as both operands are (08's gemv does the same): a lane's 16 bytes of a row are
  // its columns 2t, 2t+1, 2t+8, 2t+9 of two mma. Rows are heads g, those behind the last are zero.
  uint4 q[D / 32];
#pragma unroll
  for (int j = 0; j < D / 32; ++j)
    q[j] = g < heads ? load_vec<uint4>(p.q + size_t(head0 + g) * D + 32 * j + 8 * t) : make_uint4(0, 0, 0, 0);
  const int newest_step = (newest - begin) / STEP, newest_row = (newest - begin) % STEP - warp * kDecodeTile;
  if (newest >= begin && newest < end && newest_step < kDecodeMmaStages && newest_row >= 0 && newest_row < kDecodeTile)
    for (int i = lane; i < 2 * PIECES; i += 32) {
      const int which = i / PIECES, piece = i % PIECES;
      store_vec(tile(newest_step, which) + newest_row * D + 8 * (piece ^ decode_swap(newest_row)),
                load_vec<uint4>((which ? p.v : p.k) + row0 + size_t(newest) * D + piece * 8));
    }

  float o[D / 8][4] = {};  // columns 8n + 2t and 8n + 2t + 1 of head g: upper and lower part of the weights
  float top = minus_infinity(), sum = 0.f;  // the sum is this lane's share
  const float scale = p.scale * kLog2E;
  const int v_row = lane / 8 % 2 * 8 + lane % 8, v_piece = lane / 16;
  for (int step = 0; first_key(step) < end; ++step) {
    cp_async_wait<kDecodeMmaStages - 1>();
    __syncwarp();  // the other lanes' pieces have arrived as well
    float c[2][2][4] = {};
#pragma unroll
    for (int j = 0; j < D / 32; ++j)
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const uint4 k = load_vec<uint4>(tile(step, 0) + (8 * n + g) * D + 8 * ((4 * j + t) ^ decode_swap(g)));
        mma_m16n8k16_bf16(c[n][0], {q[j].x, 0, q[j].y, 0}, {k.x, k.y});
        mma_m16n8k16_bf16(c[n][1], {q[j].z, 0, q[j].w, 0}, {k.z, k.w});
      }

    float score[2][2], new_top = top;
#pragma unroll
    for (int n = 0; n < 2; ++n)
      for (int e = 0; e < 2; ++e) {
        const bool visible = first_key(step) + 8 * n + 2 * t + e < end;
        score[n][e] = visible ? (c[n][0][e] + c[n][1][e]) * scale : minus_infinity();
        new_top = fmaxf(new_top, score[n][e]);
      }
    new_top = fmaxf(new_top, __shfl_xor_sync(~0u, new_top, 1));
    new_top = fmaxf(new_top, __shfl_xor_sync(~0u, new_top, 2));
    if (__any_sync(~0u, new_top > top)) {  // seldom after the first turns
      const float factor = rescale(top, new_top);
      top = new_top;
      sum *= factor;
#pragma unroll
      for (int n = 0; n < D / 8; ++n)
        for (int i = 0; i < 4; ++i) o[n][i] *= factor;
    }

    // [two_parts]
    uint32_t weights[4];  // A operand: rows g and g + 8 of keys 2t, 2t + 1, then of keys 2t + 8, 2t + 9
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float a = exp2_approx(score[n][0] - exponent_base(top)), b = exp2_approx(score[n][1] - exponent_base(top));
      sum += a + b;
      weights[2 * n] = pack_bf16(a, b);
      const float2 rounded = unpack_bf16(weights[2 * n]);
      weights[2 * n + 1] = pack_bf16(a - rounded.x, b - rounded.y);
    }
    // [/two_parts]
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      uint32_t v[4];
      ldmatrix_x4_trans(v, tile(step, 1) + v_row * D + 8 * ((2 * d + v_piece) ^ decode_swap(v_row)));
      mma_m16n8k16_bf16(o[2 * d], weights, {v[0], v[1]});
      mma_m16n8k16_bf16(o[2 * d + 1], weights, {v[2], v[3]});
    }
    __syncwarp();  // all lanes have read: the next fetch writes here
    fetch(step + kDecodeMmaStages, true);
  }
  cp_async_wait<0>();

  constexpr int PITCH = D + 8;  // four heads' rows start in different banks
  constexpr size_t kRows = size_t(kWarps) * kMostHeadsAtOnce;
  static_assert(kRows * (PITCH * 4 + 8) <= kDecodeMmaBytes<D, kWarps>, "the sums fit into the ring's memory");
  static_assert(kMostSplits * kMostHeadsAtOnce * 4 + kWarps * 512 <= kDecodeMmaBytes<D, kWarps>,
                "so does the combination");
  float* const warp_sums = dynamic_shared<float>();                                // [warp][kMostHeadsAtOnce][PITCH]
  float2* const warp_tops = reinterpret_cast<float2*>(warp_sums + kRows * PITCH);  // [warp][kMostHeadsAtOnce]
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  __syncthreads();  // nobody reads the ring any more
  const int row = warp * kMostHeadsAtOnce + g;
  if (g < heads) {
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
      store_vec(warp_sums + row * PITCH + 8 * n + 2 * t, make_float2(o[n][0] + o[n][2], o[n][1] + o[n][3]));
    if (t == 0) warp_tops[row] = make_float2(top, sum);
  }
  decode_finish<D, kWarps>(w, warp_sums, warp_tops, kMostHeadsAtOnce, PITCH, active, heads, head0);
}

// As many warps as shared memory has room for: a GPU of the consumer kind has 99 KB a block.
template <int D>
void attention_decode_mma(Stream& stream, const DecodeWork& work, const DecodeScratch& scratch, bool pdl) {
  constexpr int kMost = D == 256 ? 4 : 8, kLeast = 512 / D;
  static_assert(kDecodeMmaBytes<D, kLeast> <= 65536, "every GPU with these tensor cores has 99 KB");
  const bool most = kDecodeMmaBytes<D, kMost> <= device().shared_bytes_per_block;
  const int warps = most ? kMost : kLeast;
  const size_t bytes = most ? kDecodeMmaBytes<D, kMost> : kDecodeMmaBytes<D, kLeast>;
  launch(most ? attention_decode_mma_kernel<D, kMost> : attention_decode_mma_kernel<D, kLeast>,
         dim3(scratch.splits, scratch.row_blocks), dim3(32 * warps), on(stream).smem(bytes).pdl(pdl), work);
}
