// 08 · linear layers for many rows (prefill): y[M, N] = x[M, K] · W[N, K]ᵀ in bfloat16 on tensor cores
//
// Step 04's plan with other numbers: tiles of x and W travel to shared memory with cp.async, several deep, and each warp
// computes a tile of its own in registers (linear_kernel.cuh). Both operands have K as their contiguous dimension, which
// is what ldmatrix wants, so nothing is transposed. Here is which tile a shape gets, and whether K is cut.
// Predict: mma.sync is Ampere's instruction; on Hopper it reaches about six tenths of what wgmma does.
#pragma once
#include "08_qwen_operators/linear_kernel.cuh"
#include "08_qwen_operators/linear_plan.hpp"

using LinearTile128x256 = LinearTile<128, 256, 64, 64, 3, 1>;  // 8 warps, 144 KB
using LinearTile128x192 = LinearTile<128, 192, 64, 48, 4, 1>;  // 8 warps, 160 KB
using LinearTile128x128 = LinearTile<128, 128, 64, 64, 3, 2>;  // 4 warps, 96 KB: two blocks on an H200, one on a 3060
using LinearTile64x64 = LinearTile<64, 64, 32, 32, 4, 3>;      // 4 warps, 64 KB
using LinearTile16x64 = LinearTile<16, 64, 16, 16, 6, 3>;      // 4 warps, 60 KB: a few rows, W is all there is to read

// The cheapest plan by that estimate among the tiles this card has shared memory for. most_split > 1 allows to cut K:
// at most that many pieces, each of four tiles or more.
inline LinearPlan linear_plan(int M, int N, int K, int most_split = 1) {
  if (M <= 16) return linear_estimate(16, 64, 1, M, N, K);
  LinearPlan best = linear_estimate(64, 64, 1, M, N, K);
  const auto consider = [&](int BM, int BN, size_t shared) {
    for (int split = 1; split <= most_split && shared <= device().shared_bytes_per_block; split *= 2) {
      if (split > 1 && ceil_div(K, 64) < 4 * split) break;
      const LinearPlan plan = linear_estimate(BM, BN, split, M, N, K);
      if (plan.clocks < best.clocks) best = plan;
    }
  };
  consider(64, 64, LinearTile64x64::SHARED);
  if (M > 64) {
    consider(128, 128, LinearTile128x128::SHARED);
    consider(128, 192, LinearTile128x192::SHARED);
    consider(128, 256, LinearTile128x256::SHARED);
  }
  return best;
}

// split > 1: K is cut into that many pieces and p.y is [split, M, N]; p.bias and p.add are for split = 1.
template <class Tile, LinearEnd END = LinearEnd::kStore, class Out>
void launch_linear_mma(Stream& stream, const LinearArguments<Out>& p, bool pdl, int split = 1) {
  const bool vector = p.K % 8 == 0 && aligned_to(p.x, 16) && aligned_to(p.W, 16) &&
                      double(std::max(p.M, p.N)) * p.K < 0x1p35;  // rows are found by a 32-bit number of chunks
  launch(vector ? linear_mma_kernel<Tile, Out, true, END> : linear_mma_kernel<Tile, Out, false, END>,
         dim3(blocks_of(p.M, Tile::BM, p.N, Tile::BN), split), dim3(Tile::THREADS),
         on(stream).smem(Tile::SHARED).pdl(pdl), p);
}

template <LinearEnd END = LinearEnd::kStore, class Out>
void launch_linear_plan(Stream& stream, const LinearArguments<Out>& p, const LinearPlan& plan, bool pdl) {
  if (plan.BM == 16)
    launch_linear_mma<LinearTile16x64, END>(stream, p, pdl, plan.split);
  else if (plan.BM == 64)
    launch_linear_mma<LinearTile64x64, END>(stream, p, pdl, plan.split);
  else if (plan.BN == 128)
    launch_linear_mma<LinearTile128x128, END>(stream, p, pdl, plan.split);
  else if (plan.BN == 192)
    launch_linear_mma<LinearTile128x192, END>(stream, p, pdl, plan.split);
  else
    launch_linear_mma<LinearTile128x256, END>(stream, p, pdl, plan.split);
}

template <class Out>
void launch_linear(Stream& stream, const LinearArguments<Out>& p, bool pdl) {
  if (device().has_bf16_mma)
    launch_linear_plan(stream, p, linear_plan(p.M, p.N, p.K), pdl);
  else
    launch_linear_simt(stream, p, pdl);
}

// y = x Wᵀ (+ bias); Out is float or bfloat16. Any M, N, K ≥ 1.
template <class Out>
void linear(Stream& stream,
            const bfloat16* x,  // [M, K]
            const bfloat16* W,  // [N, K]
            Out* y,             // [M, N]
            int M, int N, int K,
            const bfloat16* bias = nullptr,  // [N]
            bool pdl = false) {
  launch_linear(stream, LinearArguments<Out>{x, W, bias, y, M, N, K, false}, pdl);
}

// residual += x Wᵀ
inline void linear_add(Stream& stream,
                       const bfloat16* x,  // [M, K]
                       const bfloat16* W,  // [N, K]
                       float* residual,    // [M, N], updated
                       int M, int N, int K, bool pdl = false) {
  launch_linear(stream, LinearArguments<float>{x, W, nullptr, residual, M, N, K, true}, pdl);
}

// y = SiLU(x Gᵀ) · (x Uᵀ), G the first `columns` rows of W and U the rest; both products are rounded to bfloat16 first,
// so that the bits are those of linear() and act_mul(). Without tensor cores it is these two, by way of `gate_up`.
inline void linear_swiglu(Stream& stream,
                          const bfloat16* x,  // [M, K]
                          const bfloat16* W,  // [2 · columns, K]
                          bfloat16* y,        // [M, columns]
                          bfloat16* gate_up,  // [M, 2 · columns]; not used where device().has_bf16_mma
                          int M, int columns, int K, bool pdl = false) {
  if (device().has_bf16_mma) {
    launch_linear_plan<LinearEnd::kSwiglu>(stream,
                                           LinearArguments<bfloat16>{x, W, nullptr, y, M, 2 * columns, K, false},
                                           linear_plan(M, 2 * columns, K), pdl);
  } else {
    linear(stream, x, W, gate_up, M, 2 * columns, K, nullptr, pdl);
    act_mul(stream, gate_up, gate_up + columns, y, M, columns, 2 * int64_t(columns), pdl);
  }
}

// Split-K: K in pieces, each with its own sums. The same bits every time, for whoever reads them adds in order.
constexpr int kMostLinearSplit = 8;

// Into how many pieces linear_partials cuts K: 1 where the tiles of y alone keep the card busy.
inline int linear_split(int M, int N, int K) {
  return device().has_bf16_mma ? linear_plan(M, N, K, kMostLinearSplit).split : 1;
}

// partial[s] = x Wᵀ over piece s of K; y is the sum of all linear_split(M, N, K) of them (add_partials_rms_norm).
inline void linear_partials(Stream& stream,
                            const bfloat16* x,  // [M, K]
                            const bfloat16* W,  // [N, K]
                            float* partial,     // [linear_split(M, N, K), M, N]
                            int M, int N, int K, bool pdl = false) {
  const LinearArguments<float> p{x, W, nullptr, partial, M, N, K, false};
  if (device().has_bf16_mma)
    launch_linear_plan(stream, p, linear_plan(M, N, K, kMostLinearSplit), pdl);
  else
    launch_linear_simt(stream, p, pdl);
}
