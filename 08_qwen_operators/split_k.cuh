// 08 · split-K: K is divided among blocks as well
//
// A projection of one token with few outputs gives few rows to work on. Split-K makes more work items by cutting K; the
// price is that somebody has to add the pieces:
//   partial   each piece writes its sums to a buffer [SPLIT_K, N]; a second kernel adds them in a fixed order
//   atomic    each piece adds to y, which has to be zeroed first; the order, and with it the last bits, is left to chance
// SPLIT_K = 1 writes y at once. The kernel is the plain form: a warp takes a row, or a piece of it, and keeps all its
// loads in flight in registers. gemv.cuh splits K too, but over the warps of one block, where adding costs a barrier.
#pragma once
#include "08_qwen_operators/gemv_kernel.cuh"

constexpr int kSplitWarps = 8;  // rows of a block

// [split_k]
// Block (x, y): eight rows, piece y of K. Pieces are whole blocks of 8 columns, so that 16-byte loads stay aligned.
template <bool ATOMIC>
__global__ void __launch_bounds__(32 * kSplitWarps) split_k_kernel(const bfloat16* x,  // [K]
                                                                   const bfloat16* W,  // [N, K]
                                                                   float* out,  // [gridDim.y, N], or [N] if ATOMIC
                                                                   int N, int K, bool vector) {
  pdl_launch_dependents();
  pdl_wait();
  const int lane = threadIdx.x % 32, n = blockIdx.x * kSplitWarps + threadIdx.x / 32;
  if (n >= N) return;  // the whole warp
  const int piece = ceil_div(ceil_div(K, 8), int(gridDim.y)) * 8;
  const int begin = blockIdx.y * piece, end = min(K, begin + piece);
  const bfloat16* row = W + size_t(n) * K;
  float sum = 0.f;
  if (vector) {
#pragma unroll 4
    for (int k = begin + 8 * lane; k < end; k += 256) sum = dot8(load_streaming(row + k), load_vec<uint4>(x + k), sum);
  } else {
    for (int k = begin + lane; k < end; k += 32) sum += __bfloat162float(row[k]) * __bfloat162float(x[k]);
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane > 0) return;
  if (ATOMIC)
    atomicAdd(out + n, sum);
  else
    out[size_t(blockIdx.y) * N + n] = sum;
}

inline __global__ void split_k_reduce_kernel(const float* partial,  // [split, N]
                                             float* y,              // [N]
                                             int split, int N) {
  pdl_launch_dependents();
  pdl_wait();
  const int n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n >= N) return;
  float sum = 0.f;
  for (int s = 0; s < split; ++s) sum += partial[size_t(s) * N + n];
  y[n] = sum;
}
// [/split_k]

// Bytes of the partial buffer; 0 for SPLIT_K = 1.
inline size_t split_k_bytes(int split, int N) { return split == 1 ? 0 : sizeof(float) * size_t(split) * size_t(N); }

// y = x Wᵀ by way of a partial buffer: the same bits every time.
inline void gemv_split_k(Stream& stream,
                         const bfloat16* x,  // [K]
                         const bfloat16* W,  // [N, K]
                         float* y,           // [N]
                         float* partial,     // [split, N]; not used for split = 1
                         int N, int K, int split, bool pdl = false) {
  const dim3 grid(ceil_div(N, kSplitWarps), split), block(32 * kSplitWarps);
  const bool vector = K % 8 == 0 && aligned_to(W, 16) && aligned_to(x, 16);
  launch(split_k_kernel<false>, grid, block, on(stream).pdl(pdl), x, W, split == 1 ? y : partial, N, K, vector);
  if (split > 1)
    launch(split_k_reduce_kernel, dim3(ceil_div(N, 256)), dim3(256), on(stream).pdl(pdl), partial, y, split, N);
}

// The same by atomics on y, zeroed here first. The order of the additions changes from run to run.
inline void gemv_split_k_atomic(Stream& stream,
                                const bfloat16* x,  // [K]
                                const bfloat16* W,  // [N, K]
                                float* y,           // [N]
                                int N, int K, int split) {
  fill_bytes(stream, y, 0, sizeof(float) * size_t(N));
  launch(split_k_kernel<true>, dim3(ceil_div(N, kSplitWarps), split), dim3(32 * kSplitWarps), on(stream), x, W, y, N, K,
         K % 8 == 0 && aligned_to(W, 16) && aligned_to(x, 16));
}
