// 08 · decode linear layers (M = 1), plain and fused (operators 2, 10, 13 to 17, 20, 21)
//
// What is fused, and what it saves: every kernel that is not there saves its start, about a microsecond in a graph, and
// the trip of its result through L2. RMSNorm moves into the projections that read it, bias, residual add, SwiGLU and
// RoPE with the KV store into the epilogues of those that feed them.
// Predict: the qkv, o, gate+up and down of the article's shape read 35.1 MB a layer: 7.8 µs at 4.5 TB/s.
#pragma once
#include "05_online_softmax/argmax.cuh"
#include "08_qwen_operators/gemv_kernel.cuh"

struct NoEarly {};

// Outputs: row() names the weight row of output n; ahead() and after() read before and after the wait what store() will
// need; finish() sees every lane of the block's first warp.
struct PlainOutput {
  static constexpr bool kPaired = false;
  using Early = NoEarly;
  __device__ const bfloat16* row(const GemvShape& s, int n, bool) const { return s.W + size_t(n) * s.K; }
  __device__ void ahead(int, NoEarly&) const {}
  __device__ void after(int, NoEarly&) const {}
  __device__ void finish(int, float, bool) const {}
};
template <class Out>
struct StoreOutput : PlainOutput {
  Out* y;                // [outputs]
  const bfloat16* bias;  // [outputs] or null
  using Early = float;
  __device__ void ahead(int n, float& bias_value) const { bias_value = bias ? __bfloat162float(bias[n]) : 0.f; }
  __device__ void after(int, float&) const {}
  __device__ void store(int n, float2 sum, float bias_value) const {
    if constexpr (sizeof(Out) == 4)
      y[n] = sum.x + bias_value;
    else
      y[n] = __float2bfloat16(sum.x + bias_value);
  }
};
struct AddToResidual : PlainOutput {
  float* residual;  // [outputs]
  using Early = float;
  __device__ void ahead(int, float&) const {}
  __device__ void after(int n, float& before) const { before = residual[n]; }
  __device__ void store(int n, float2 sum, float before) const { residual[n] = before + sum.x; }
};

// The largest value of each block and where it was: step 05's, smallest index on a tie, NaN never.
using BlockBest = Best;
struct LogitsOutput : PlainOutput {
  float* logits;    // [outputs]
  BlockBest* best;  // [blocks] or null
  __device__ void store(int n, float2 sum, NoEarly) const { logits[n] = sum.x; }
  __device__ void finish(int n, float value, bool mine) const;
};
struct SwigluOutput {
  const bfloat16* up;  // [outputs, K]; W is the gate
  bfloat16* y;         // [outputs]
  static constexpr bool kPaired = true;
  using Early = NoEarly;
  __device__ const bfloat16* row(const GemvShape& s, int n, bool second) const {
    return (second ? up : s.W) + size_t(n) * s.K;
  }
  __device__ void ahead(int, NoEarly&) const {}
  __device__ void after(int, NoEarly&) const {}
  // gate and up are rounded first, as the unfused kernels and the reference round them: then only the order of the sums
  // can tell the two forms apart
  __device__ void store(int n, float2 sum, NoEarly) const {
    y[n] = __float2bfloat16(silu(round_bf16(sum.x)) * round_bf16(sum.y));
  }
  __device__ void finish(int, float, bool) const {}
};
// qkv without QK-norm: output n is the pair (i, i + head_dim/2) of a head, so that one thread can rotate it.
struct RopeStoreOutput {
  const bfloat16* bias;  // [split.row()] or null
  const float2* table;   // [positions, head_dim/2] cos, sin
  const int* position;   // device, 1
  bfloat16* q;           // [heads, head_dim]
  KvCache cache;
  HeadSplit split;
  // Under dependent launch: *position was written before the first kernel of the chain started (06's decode_mma.cuh
  // says when that holds). Position, then angle: two trips to L2, one after the other, that need not wait.
  bool position_settled = false;
  static constexpr bool kPaired = true;
  struct Early {
    float2 angle, bias;
    int position;
  };
  __device__ int first(int n) const { return n / (split.head_dim / 2) * split.head_dim + n % (split.head_dim / 2); }
  __device__ const bfloat16* row(const GemvShape& s, int n, bool second) const {
    return s.W + size_t(first(n) + (second ? split.head_dim / 2 : 0)) * s.K;
  }
  __device__ void ahead(int n, Early& e) const {
    const int half = split.head_dim / 2, r = first(n);
    if (bias) e.bias = make_float2(__bfloat162float(bias[r]), __bfloat162float(bias[r + half]));
    if (position_settled) load_angle(n, e);
  }
  __device__ void after(int n, Early& e) const {
    if (!position_settled) load_angle(n, e);
  }
  __device__ void load_angle(int n, Early& e) const {
    const int half = split.head_dim / 2;
    e.position = *position;
    e.angle = table[int64_t(e.position) * half + n % half];
  }
  __device__ void store(int n, float2 sum, const Early& e) const {
    const int half = split.head_dim / 2, head = n / half, i = n % half;
    // rounded once as the projection's output, as the unfused kernels and the reference do, then as q and k
    const float a = round_bf16(sum.x + e.bias.x), b = round_bf16(sum.y + e.bias.y);
    const int kv = head < split.heads ? -1 : (head - split.heads) % split.kv_heads;
    const bool is_v = head >= split.heads + split.kv_heads;
    bfloat16* to = kv < 0 ? q + head * split.head_dim
                          : (is_v ? cache.v : cache.k) + (int64_t(kv) * cache.capacity + e.position) * split.head_dim;
    to[i] = __float2bfloat16(is_v ? a : a * e.angle.x - b * e.angle.y);
    to[i + half] = __float2bfloat16(is_v ? b : b * e.angle.x + a * e.angle.y);
  }
  __device__ void finish(int, float, bool) const {}
};

__device__ __forceinline__ void LogitsOutput::finish(int n, float value, bool mine) const {
  if (!best) return;
  const bool counts = mine && value == value;  // not NaN
  const BlockBest winner = warp_best({counts ? value : -INFINITY, counts ? n : INT_MAX});
  if (threadIdx.x == 0) best[blockIdx.x] = winner;
}

// Launchers ------------------------------------------------------------------------------------------------------------

// Rows of a slab: as many as still give every multiprocessor a block. More rows mean fewer blocks that each repeat the
// fetch of x; fewer blocks than multiprocessors leave some without work.
inline int gemv_rows(int outputs, bool paired) {
  for (int rows = kGemvMostRows; rows > 8 * (paired ? 2 : 1); rows /= 2)
    if (ceil_div(outputs, paired ? rows / 2 : rows) >= device().multiprocessors) return rows;
  return paired ? 16 : 8;
}

// Blocks of norm_gemv_logits, which is the number of its BlockBest.
inline int gemv_logits_blocks(int outputs) { return ceil_div(outputs, gemv_rows(outputs, false)); }

template <class Input, class Output>
void launch_gemv(Stream& stream, GemvShape s, const Input& in, const Output& out, bool pdl) {
  s.rows = gemv_rows(s.outputs, Output::kPaired);
  // Two neighbours in the chain have to fit on one multiprocessor together, or the copy ahead of the wait cannot start.
  const size_t budget = device().shared_bytes_per_block / 2 - 2048;
  s.chunk = ceil_div(s.K, 32) * 32;
  const int warps = warps_for_row(s.K);
  s.whole = Input::kNorm && s.vector && s.chunk <= 128 * warps;
  for (int parts = 2; s.shared_bytes(warps) > budget && s.chunk > 32; ++parts)
    s.chunk = ceil_div(ceil_div(s.K, parts), 32) * 32, s.whole = false;
  const dim3 grid(ceil_div(s.outputs, Output::kPaired ? s.rows / 2 : s.rows)), block(32 * warps);
  launch(device().has_bf16_mma ? gemv_kernel<Input, Output, true> : gemv_kernel<Input, Output, false>, grid, block,
         on(stream).smem(s.shared_bytes(warps)).pdl(pdl), s, in, out);
}
inline bool gemv_vector(int K, const void* W, const void* x, const void* other) {
  return K % 8 == 0 && aligned_to(W, 16) && aligned_to(x, 16) && aligned_to(other, 16);
}

// y = x Wᵀ (+ bias); Out is float or bfloat16. Any N, K ≥ 1.
template <class Out>
void gemv(Stream& stream,
          const bfloat16* x,     // [K]
          const bfloat16* W,     // [N, K]
          const bfloat16* bias,  // [N] or null
          Out* y,                // [N]
          int N, int K, bool pdl = false) {
  launch_gemv(stream, {W, N, K, 0, 0, gemv_vector(K, W, x, nullptr)}, FromBfloat16{x}, StoreOutput<Out>{{}, y, bias},
              pdl);
}

// residual += x Wᵀ: o_proj and down_proj with the residual connection.
inline void gemv_add(Stream& stream,
                     const bfloat16* x,  // [K]
                     const bfloat16* W,  // [N, K]
                     float* residual,    // [N], updated
                     int N, int K, bool pdl = false) {
  launch_gemv(stream, {W, N, K, 0, 0, gemv_vector(K, W, x, nullptr)}, FromBfloat16{x}, AddToResidual{{}, residual},
              pdl);
}

// y = RMSNorm(residual) Wᵀ (+ bias).
inline void norm_gemv(Stream& stream,
                      const float* residual,            // [K]
                      const bfloat16* norm, float eps,  // [K]
                      const bfloat16* W,                // [N, K]
                      const bfloat16* bias,             // [N] or null
                      bfloat16* y,                      // [N]
                      int N, int K, bool pdl = false) {
  launch_gemv(stream, {W, N, K, 0, 0, gemv_vector(K, W, residual, norm)}, FromResidual{residual, norm, eps},
              StoreOutput<bfloat16>{{}, y, bias}, pdl);
}

// y = SiLU(x W_gateᵀ) · (x W_upᵀ), x = RMSNorm(residual); gate and up are rounded to bfloat16.
inline void norm_gemv_swiglu(Stream& stream,
                             const float* residual,            // [K]
                             const bfloat16* norm, float eps,  // [K]
                             const bfloat16* gate,             // [N, K]
                             const bfloat16* up,               // [N, K]
                             bfloat16* y,                      // [N]
                             int N, int K, bool pdl = false) {
  const bool vector = gemv_vector(K, gate, residual, norm) && aligned_to(up, 16);
  launch_gemv(stream, {gate, N, K, 0, 0, vector}, FromResidual{residual, norm, eps}, SwigluOutput{up, y}, pdl);
}

// q, K and V of one token from the residual stream in one kernel: norm, projection (+ bias), RoPE, KV store. For heads
// without QK-norm whose every dimension is rotated. The position is read from device memory.
// Throws BadInput for an odd head_dim.
inline void norm_gemv_rope_store(Stream& stream,
                                 const float* residual,            // [K]
                                 const bfloat16* norm, float eps,  // [K]
                                 const bfloat16* W,                // [split.row(), K]
                                 const RopeStoreOutput& out, int K, bool pdl = false) {
  if (out.split.head_dim % 2 != 0)
    throw BadInput("norm_gemv_rope_store: head_dim " + std::to_string(out.split.head_dim) + " is odd");
  launch_gemv(stream, {W, out.split.row() / 2, K, 0, 0, gemv_vector(K, W, residual, norm)},
              FromResidual{residual, norm, eps}, out, pdl);
}

// logits = x Wᵀ, and where `best` is given each block's argmax beside them. With thousands of blocks the norm belongs
// into a kernel of its own: fused, every block repeats it, and while it does its slab lies idle.
inline void gemv_logits(Stream& stream,
                        const bfloat16* x,  // [K]
                        const bfloat16* W,  // [N, K]
                        float* logits,      // [N]
                        BlockBest* best,    // [gemv_logits_blocks(N)] or null
                        int N, int K, bool pdl = false) {
  launch_gemv(stream, {W, N, K, 0, 0, gemv_vector(K, W, x, nullptr)}, FromBfloat16{x}, LogitsOutput{{}, logits, best},
              pdl);
}

// The same of x = RMSNorm(residual).
inline void norm_gemv_logits(Stream& stream,
                             const float* residual,            // [K]
                             const bfloat16* norm, float eps,  // [K]
                             const bfloat16* W,                // [N, K]
                             float* logits,                    // [N]
                             BlockBest* best,                  // [gemv_logits_blocks(N)] or null
                             int N, int K, bool pdl = false) {
  launch_gemv(stream, {W, N, K, 0, 0, gemv_vector(K, W, residual, norm)}, FromResidual{residual, norm, eps},
              LogitsOutput{{}, logits, best}, pdl);
}
