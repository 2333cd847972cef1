// 08 · what a decode linear layer is given: its shape, where a weight lies in the slab, and the two kinds of x
//
// An input has four parts. ahead() reads, before the wait, what no kernel in flight writes; after the wait x comes whole()
// at once, or by scale() and load() in chunks, whose norm weights prefetch() has asked for.
#pragma once
#include "08_qwen_operators/rms_norm.cuh"

constexpr int kGemvTile = 16;      // rows of one mma
constexpr int kGemvMostRows = 32;  // of a slab: two tiles; a warp of threads writes them

struct GemvShape {
  const bfloat16* W;   // [outputs or more, K], row-major
  int outputs, K;      // K: columns of W
  int rows;            // of a slab: 8, 16 or 32
  int chunk;           // columns in shared memory at a time, a multiple of 32
  bool vector;         // W, x and the norm weight allow 16-byte copies
  bool whole = false;  // a thread holds all it normalises in registers: one chunk of at most four columns a thread
  __host__ __device__ int pitch() const { return ceil_div(chunk, 64) * 64; }  // elements from row to row
  // Dynamic shared memory: slab, x, and each warp's sums. Every kilobyte counts: gate+up twice and down once have to fit
  // on a multiprocessor of an H200 together.
  size_t shared_bytes(int warps) const {
    return sizeof(bfloat16) * (size_t(rows) * pitch() + chunk) +
           sizeof(float) * ceil_div(rows, kGemvTile) * warps * kGemvTile;
  }
};

// `count` columns from `from` on into shared memory, zeros up to `padded`. Each thread later reads back only what it
// copied itself, so its own wait suffices.
__device__ __forceinline__ void copy_columns(bfloat16* to, const bfloat16* from, int count, int padded, bool vector) {
  if (vector)
    for (int i = 8 * threadIdx.x; i < padded; i += 8 * blockDim.x)
      cp_async_16(to + i, i < count ? from + i : from, i < count);
  else
    for (int i = threadIdx.x; i < padded; i += blockDim.x) to[i] = i < count ? from[i] : __float2bfloat16(0.f);
}

// Where column i of slab row r lies: the exchanged halves.
__device__ __forceinline__ int slab_column(int r, int i) { return i ^ (r % 2 * 32); }

// x as another kernel left it.
struct FromBfloat16 {
  const bfloat16* x;  // [K]
  static constexpr bool kNorm = false;
  struct Ahead {};
  __device__ Ahead ahead(const GemvShape&) const { return {}; }
  __device__ float scale(const GemvShape&) const { return 1.f; }
  __device__ void prefetch(const GemvShape&, bfloat16*, int, int, int) const {}
  __device__ void load(const GemvShape& s, bfloat16* x_shared, const bfloat16*, float, int k0, int count,
                       int padded) const {
    copy_columns(x_shared, x + k0, count, padded, s.vector);
  }
};

// x is the RMSNorm of the residual stream, which each block computes for itself: 4 KB from L2 and one barrier, against
// a kernel of its own.
struct FromResidual {
  const float* x;        // [K]
  const bfloat16* norm;  // [K]
  float eps;
  static constexpr bool kNorm = true;
  using Ahead = uint2;  // norm weights of four columns
  __device__ uint2 ahead(const GemvShape& s) const {
    const int i = 4 * threadIdx.x;
    return s.whole && i < s.K ? load_vec<uint2>(norm + i) : make_uint2(0, 0);
  }
  // [whole]
  // The whole x at once: four columns a thread, read once, the same sums as rms_norm's.
  __device__ void whole(const GemvShape& s, bfloat16* x_shared, uint2 weights) const {
    const int i = 4 * threadIdx.x;
    const float4 v = i < s.K ? load_vec<float4>(x + i) : make_float4(0.f, 0.f, 0.f, 0.f);
    const float r = rsqrtf(row_sum(v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w) / float(s.K) + eps);
    const float2 a = unpack_bf16(weights.x), b = unpack_bf16(weights.y);
    if (i < s.chunk)
      store_vec(x_shared + i, make_uint2(pack_bf16(round_bf16(v.x * r) * a.x, round_bf16(v.y * r) * a.y),
                                         pack_bf16(round_bf16(v.z * r) * b.x, round_bf16(v.w * r) * b.y)));
  }
  // [/whole]
  // In pieces, where K is long or oddly aligned.
  __device__ float scale(const GemvShape& s) const { return rms_scale(x, s.K, eps, s.vector); }
  __device__ void prefetch(const GemvShape& s, bfloat16* norm_shared, int k0, int count, int padded) const {
    copy_columns(norm_shared, norm + k0, count, padded, s.vector);
  }
  __device__ void load(const GemvShape& s, bfloat16* x_shared, const bfloat16* norm_shared, float r, int k0, int count,
                       int padded) const {
    if (s.vector) {  // 8 columns a thread, as in copy_columns
      for (int i = 8 * threadIdx.x; i < padded; i += 8 * blockDim.x) {
        uint4 packed = make_uint4(0, 0, 0, 0);
        if (i < count) {
          const float4 a = load_vec<float4>(x + k0 + i), b = load_vec<float4>(x + k0 + i + 4);
          const uint4 w = load_vec<uint4>(norm_shared + i);
          const auto pair = [r](float low, float high, uint32_t weights) {
            const float2 f = unpack_bf16(weights);
            return pack_bf16(round_bf16(low * r) * f.x, round_bf16(high * r) * f.y);
          };
          packed = make_uint4(pair(a.x, a.y, w.x), pair(a.z, a.w, w.y), pair(b.x, b.y, w.z), pair(b.z, b.w, w.w));
        }
        store_vec(x_shared + i, packed);
      }
    } else {
      for (int i = threadIdx.x; i < padded; i += blockDim.x)
        x_shared[i] = __float2bfloat16(i < count ? normalised(x[k0 + i], r, norm_shared[i]) : 0.f);
    }
  }
};
