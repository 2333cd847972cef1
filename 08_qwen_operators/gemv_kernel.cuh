// 08 · the decode linear layer: one kernel body, five forms (gemv.cuh has the launchers)
//
// At one token a linear layer is a read of its weights; everything else must hide behind that read. So a block copies
// its slab of weight rows into shared memory before it waits for the kernel in front of it: weights never change, and
// under programmatic dependent launch the copy runs while the previous kernel still computes. Then it waits, fetches the
// activations (and normalises them), multiplies from shared memory, and adds what its warps found.
//   · A slab is 8, 16 or 32 rows of K columns; K beyond the slab's room goes in chunks.
//   · Warps split K in blocks of 32. Weights are the A operand of mma.m16n8k16, sixteen rows a tile. K may be permuted
//     freely as long as both operands are: a lane takes 16 neighbouring bytes of a row, 8 values, and feeds them to two
//     mma as if they were columns 2t, 2t+1, 2t+8, 2t+9 of each. x needs only column 0 of the B operand, lanes 0 to 3.
//   · Rows lie a multiple of 128 bytes apart, and odd rows have the halves of each 128 bytes exchanged: the 8 lanes of a
//     quarter-warp, two rows of 64 bytes, meet all 32 banks once. Padding would do it as well, but the 2 KB it costs a
//     gate+up slab are what keeps three of them from standing beside a slab of o: then the last slabs start only when o
//     has ended, and down's after them.
//   · What is read after the wait is asked for at once, and everything that can be is read before.
//   · Sums are float, in an order that depends on K alone: a rerun gives the same bits.
#pragma once
#include "08_qwen_operators/gemv_inputs.cuh"
#include "08_qwen_operators/qk_norm_rope_store.cuh"
#include "08_qwen_operators/swiglu.cuh"

__device__ __forceinline__ float dot8(uint4 w, uint4 x, float sum) {
  const uint32_t a[4] = {w.x, w.y, w.z, w.w}, b[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 f = unpack_bf16(a[i]), g = unpack_bf16(b[i]);
    sum += f.x * g.x;
    sum += f.y * g.y;
  }
  return sum;
}

// [tile_dot]
// This warp's share of sixteen dot products: blocks [begin, end) of 32 columns. Lane 4g holds row g in x and row g + 8
// in y. Without tensor cores (sm_75) the same bytes go through FMA.
template <bool kTensor>
__device__ __forceinline__ float2 tile_dot(const bfloat16* tile, int pitch, bool upper, const bfloat16* x, int begin,
                                           int end) {
  const int lane = threadIdx.x % 32, t = lane % 4, odd_row = lane / 4 % 2;
  const bfloat16 *low = tile + (lane / 4) * pitch + 8 * t, *high = low + 8 * pitch;
  const uint4 zero = make_uint4(0, 0, 0, 0);
  float c[4][4] = {};  // four chains of dependent mma, so that they overlap
  float2 sum = make_float2(0.f, 0.f);
  const auto step = [&](int block, float(&even)[4], float(&odd)[4]) {
    const int at = 32 * (block ^ odd_row);  // slab_column
    const uint4 u = load_vec<uint4>(low + at), v = upper ? load_vec<uint4>(high + at) : zero;
    if constexpr (kTensor) {
      const uint4 b = lane < 4 ? load_vec<uint4>(x + 32 * block + 8 * t) : zero;
      mma_m16n8k16_bf16(even, {u.x, v.x, u.y, v.y}, {b.x, b.y});
      mma_m16n8k16_bf16(odd, {u.z, v.z, u.w, v.w}, {b.z, b.w});
    } else {
      const uint4 b = load_vec<uint4>(x + 32 * block + 8 * t);
      sum.x = dot8(u, b, sum.x);
      sum.y = dot8(v, b, sum.y);
    }
  };
  int block = begin;
#pragma unroll 2
  for (; block + 1 < end; block += 2) {
    step(block, c[0], c[1]);
    step(block + 1, c[2], c[3]);
  }
  if (block < end) step(block, c[0], c[1]);
  if constexpr (kTensor) {
    sum = make_float2((c[0][0] + c[1][0]) + (c[2][0] + c[3][0]), (c[0][2] + c[1][2]) + (c[2][2] + c[3][2]));
  } else {
    for (int lanes = 1; lanes < 4; lanes *= 2) {
      sum.x += __shfl_xor_sync(0xffffffffu, sum.x, lanes);
      sum.y += __shfl_xor_sync(0xffffffffu, sum.y, lanes);
    }
  }
  return sum;
}
// [/tile_dot]

// The slab: rows of W, or for paired outputs tiles of 8 first rows and their 8 partners. Output::row says which.
template <class Output>
__device__ __forceinline__ void copy_slab(const GemvShape& s, const Output& out, bfloat16* slab, int k0, int count,
                                          int padded) {
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32, pitch = s.pitch();
  for (int r = threadIdx.x / 32; r < s.rows; r += warps) {
    const int n = Output::kPaired ? blockIdx.x * (s.rows / 2) + r / 16 * 8 + r % 8 : blockIdx.x * s.rows + r;
    const bool valid = n < s.outputs;
    const bfloat16* from = valid ? out.row(s, n, r % 16 >= 8) + k0 : s.W;
    bfloat16* to = slab + r * pitch;
    if (s.vector) {
#pragma unroll 4
      for (int i = 8 * lane; i < padded; i += 256)
        cp_async_16(to + slab_column(r, i), i < count ? from + i : s.W, valid && i < count);
    } else {
      for (int i = lane; i < padded; i += 32)
        to[slab_column(r, i)] = valid && i < count ? from[i] : __float2bfloat16(0.f);
    }
  }
}

// [gemv]
template <class Input, class Output, bool kTensor>
__global__ void __launch_bounds__(32 * kMostWarps, 3) gemv_kernel(GemvShape s, Input in, Output out) {
  pdl_launch_dependents();  // the next kernel may start to fetch its weights at once
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  bfloat16* slab = dynamic_shared<bfloat16>();
  bfloat16* x = slab + s.rows * s.pitch();
  bfloat16* norm = x;                                      // until x is computed from it, in place
  float* partial = reinterpret_cast<float*>(x + s.chunk);  // [tiles, warps, 16]

  float scale = 1.f;
  const int n = blockIdx.x * (Output::kPaired ? s.rows / 2 : s.rows) + lane;
  const bool mine = warp == 0 && lane < (Output::kPaired ? s.rows / 2 : s.rows) && n < s.outputs;
  typename Output::Early early{};  // what the epilogue needs from memory
  for (int k0 = 0; k0 < s.K; k0 += s.chunk) {
    const int count = min(s.chunk, s.K - k0), padded = ceil_div(count, 32) * 32;
    if (k0 > 0) __syncthreads();  // all have used the chunk before
    if (!s.whole) in.prefetch(s, norm, k0, count, padded);
    cp_async_commit();
    copy_slab(s, out, slab, k0, count, padded);
    cp_async_commit();
    if (k0 == 0) {
      const typename Input::Ahead ahead = in.ahead(s);
      if (mine) out.ahead(n, early);
      pdl_wait();  // up to here nothing was read that a kernel in flight writes
      if (mine) out.after(n, early);
      if constexpr (Input::kNorm) {
        if (s.whole)
          in.whole(s, x, ahead);
        else
          scale = in.scale(s);
      }
    }
    if (!Input::kNorm || !s.whole) {
      if (Input::kNorm) cp_async_wait<1>();  // this thread's norm weights
      in.load(s, x, norm, scale, k0, count, padded);
      cp_async_commit();
    }
    cp_async_wait<0>();
    __syncthreads();

    const int blocks = padded / 32, begin = blocks * warp / warps, end = blocks * (warp + 1) / warps;
    for (int tile = 0; tile * kGemvTile < s.rows; ++tile) {
      const bool upper = s.rows - tile * kGemvTile > 8;
      const float2 sum = tile_dot<kTensor>(slab + tile * kGemvTile * s.pitch(), s.pitch(), upper, x, begin, end);
      if (lane % 4 == 0) {
        float* to = partial + (tile * warps + warp) * kGemvTile + lane / 4;
        to[0] = k0 > 0 ? to[0] + sum.x : sum.x;
        to[8] = k0 > 0 ? to[8] + sum.y : sum.y;
      }
    }
  }
  __syncthreads();
  if (warp > 0) return;  // no barrier of the block follows
  const auto total = [&](int row) {
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < kMostWarps; ++w)  // a fixed count, so that the loads follow one another without waiting
      if (w < warps) sum += partial[(row / kGemvTile * warps + w) * kGemvTile + row % kGemvTile];
    return sum;
  };
  float2 sum = make_float2(0.f, 0.f);
  if (mine) {
    if (Output::kPaired)
      sum = make_float2(total(lane / 8 * 16 + lane % 8), total(lane / 8 * 16 + lane % 8 + 8));
    else
      sum.x = total(lane);
    out.store(n, sum, early);
  }
  out.finish(n, sum.x, mine);  // the whole warp
}
// [/gemv]
