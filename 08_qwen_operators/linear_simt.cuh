// 08 · linear layers without tensor cores: the baseline of this step, and the road for cards before sm_80
//
//   linear_simple  one thread an output: what a first attempt looks like
//   linear_simt    step 02's register tile on bfloat16 inputs
#pragma once
#include "08_qwen_operators/rms_norm.cuh"

template <class Out>
struct LinearArguments {
  const bfloat16* x;     // [M, K]
  const bfloat16* W;     // [N, K]
  const bfloat16* bias;  // [N] or null
  Out* y;                // [M, N]
  int M, N, K;
  bool add;  // y += instead of y =; Out is float
};

// Two neighbouring outputs; what lies outside y is dropped.
template <class Out>
__device__ __forceinline__ void store_outputs(const LinearArguments<Out>& p, int row, int col, float a, float b) {
  if (row >= p.M || col >= p.N) return;
  const bool both = col + 1 < p.N;
  Out* to = p.y + int64_t(row) * p.N + col;
  if (p.bias) {
    a += __bfloat162float(p.bias[col]);
    if (both) b += __bfloat162float(p.bias[col + 1]);
  }
  if constexpr (sizeof(Out) == 2) {
    if (both && p.N % 2 == 0) {
      store_vec(to, pack_bf16(a, b));
    } else {
      to[0] = __float2bfloat16(a);
      if (both) to[1] = __float2bfloat16(b);
    }
  } else {
    to[0] = p.add ? to[0] + a : a;
    if (both) to[1] = p.add ? to[1] + b : b;
  }
}

inline unsigned blocks_of(int M, int BM, int N, int BN) {
  return static_cast<unsigned>(ceil_div(M, BM)) * static_cast<unsigned>(ceil_div(N, BN));
}

// Tile number `i` (x: down M, y: along N): bands of 8 tiles down M, walked along N, so that blocks that run at the same
// time share tiles of W and x in the L2.
__device__ __forceinline__ int2 tile_in_bands(unsigned i, int tiles_m, int tiles_n) {
  constexpr int kBand = 8;
  const int band = int(i / unsigned(kBand * tiles_n)), in_band = int(i % unsigned(kBand * tiles_n));
  const int height = min(kBand, tiles_m - band * kBand);
  return make_int2(band * kBand + in_band % height, in_band / height);
}
// The tile of this block. One grid dimension, which has room for 2^31 blocks.
__device__ __forceinline__ int2 block_in_bands(int tiles_m, int tiles_n) {
  return tile_in_bands(blockIdx.x, tiles_m, tiles_n);
}

// [linear_simple]
template <class Out>
__global__ void linear_simple_kernel(LinearArguments<Out> p) {
  pdl_launch_dependents();
  pdl_wait();
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= int64_t(p.M) * p.N) return;
  const int row = int(i / p.N), col = int(i % p.N);
  float sum = 0.f;
  for (int k = 0; k < p.K; ++k)  // neighbouring threads read W at a distance of K: 32 sectors a request
    sum += __bfloat162float(p.x[int64_t(row) * p.K + k]) * __bfloat162float(p.W[int64_t(col) * p.K + k]);
  if (p.bias) sum += __bfloat162float(p.bias[col]);
  if constexpr (sizeof(Out) == 2)
    p.y[i] = __float2bfloat16(sum);
  else
    p.y[i] = p.add ? p.y[i] + sum : sum;
}
// [/linear_simple]

// y = x Wᵀ (+ bias), one thread an output; M · N < 2^39.
template <class Out>
void linear_simple(Stream& stream,
                   const bfloat16* x,  // [M, K]
                   const bfloat16* W,  // [N, K]
                   Out* y,             // [M, N]
                   int M, int N, int K,
                   const bfloat16* bias = nullptr) {  // [N]
  launch(linear_simple_kernel<Out>, dim3(static_cast<unsigned>(ceil_div<int64_t>(int64_t(M) * N, 256))), dim3(256),
         on(stream), LinearArguments<Out>{x, W, bias, y, M, N, K, false});
}

// A block computes 64×64 outputs, a thread 4×4 of them. Both tiles are stored by k with rows of 65 floats, so that
// the transposed stores meet different banks.
template <class Out>
__global__ void __launch_bounds__(256) linear_simt_kernel(LinearArguments<Out> p) {
  constexpr int TILE = 64, BK = 16;
  pdl_launch_dependents();
  __shared__ float xs[BK][TILE + 1], ws[BK][TILE + 1];
  const int2 block = block_in_bands(ceil_div(p.M, TILE), ceil_div(p.N, TILE));
  const int row0 = block.x * TILE, col0 = block.y * TILE, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  pdl_wait();
  float sum[4][4] = {};
  for (int k0 = 0; k0 < p.K; k0 += BK) {
    for (int i = threadIdx.x; i < TILE * BK; i += 256) {
      const int row = i / BK, k = i % BK;
      const bool in_k = k0 + k < p.K;
      xs[k][row] = in_k && row0 + row < p.M ? __bfloat162float(p.x[int64_t(row0 + row) * p.K + k0 + k]) : 0.f;
      ws[k][row] = in_k && col0 + row < p.N ? __bfloat162float(p.W[int64_t(col0 + row) * p.K + k0 + k]) : 0.f;
    }
    __syncthreads();
    for (int k = 0; k < BK; ++k) {
      float a[4], b[4];
      for (int i = 0; i < 4; ++i) a[i] = xs[k][ty * 4 + i];
      for (int j = 0; j < 4; ++j) b[j] = ws[k][tx * 4 + j];
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sum[i][j] += a[i] * b[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; j += 2) store_outputs(p, row0 + ty * 4 + i, col0 + tx * 4 + j, sum[i][j], sum[i][j + 1]);
}

template <class Out>
void launch_linear_simt(Stream& stream, const LinearArguments<Out>& p, bool pdl) {
  launch(linear_simt_kernel<Out>, dim3(blocks_of(p.M, 64, p.N, 64)), dim3(256), on(stream).pdl(pdl), p);
}
