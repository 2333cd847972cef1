// 08 · linear layers for many rows on Hopper: y[M, N] = x[M, K] · W[N, K]ᵀ by wgmma and TMA
//
// The kernel is in linear_sm90_kernel.cuh; here is when it may run, which tile a shape gets, and its tensor maps. It is
// never the only way: whatever it does, linear_mma.cuh does on every card with tensor cores.
// Predict: 989 TFLOP/s dense is the datasheet's peak for bfloat16 (2048 multiplications a clock on each of 132
//          multiprocessors at 1.83 GHz); cuBLAS, which does the same, shows what the power limit leaves of it. A tile of
//          128×256 wants 48 KB of x and W for 1024 clocks of wgmma: 47 bytes a clock, near what the L2 gives to all.
// Run: make step08
#pragma once
#include <fmt/format.h>

#include "08_qwen_operators/linear_plan.hpp"
#include "08_qwen_operators/linear_sm90_kernel.cuh"

using LinearTileSm90x256 = LinearTileSm90<256, 4>;  // 225 KB, as the others: as many tiles under way as there is room
using LinearTileSm90x128 = LinearTileSm90<128, 6>;
using LinearTileSm90x64 = LinearTileSm90<64, 8>;  // few rows: more tiles of y than multiprocessors matter most

// Can linear_sm90_kernel run here, and does the copy engine take these matrices? W of kSwiglu is [N, K] with N / 2 rows
// of gate and then as many of up.
template <LinearEnd END = LinearEnd::kStore, class Out>
bool linear_sm90_fits(const LinearArguments<Out>& p) {
  const int columns = END == LinearEnd::kSwiglu ? p.N / 2 : p.N;
  return device().has_wgmma && p.K % 8 == 0 && columns % 8 == 0 && aligned_to(p.x, 16) && aligned_to(p.W, 16) &&
         aligned_to(p.y, 16) && (!p.bias || aligned_to(p.bias, 4));
}

// The cheapest tile, and the pieces K is cut into, by the arithmetic of linear_estimate.
// An estimate: wgmma is taken to reach 0.85 of the tensor cores' peak. (results/h200.json: 0.75 at 4096³.)
constexpr double kWgmmaRate = 0.85 * 2048;
template <LinearEnd END = LinearEnd::kStore>
LinearPlan linear_sm90_plan(int M, int N, int K, int most_split = 1) {
  LinearPlan best{};
  for (const int BN : {256, 128, 64}) {
    if (END == LinearEnd::kSwiglu && BN == 64) continue;  // y is stored in boxes of 64 columns
    for (int split = 1; split <= most_split && (split == 1 || ceil_div(K, 64) >= 4 * split); split *= 2) {
      const LinearPlan plan = linear_estimate(128, BN, split, M, N, K, kWgmmaRate);
      if (best.BN == 0 || plan.clocks < best.clocks) best = plan;
    }
  }
  return best;
}

// p as for launch_linear_mma; linear_sm90_fits(p) must hold. `blocks`: as many as this, or as there are tiles of y and
// pieces of K. 0: as there are multiprocessors.
template <class Tile, LinearEnd END = LinearEnd::kStore, class Out>
void launch_linear_sm90(Stream& stream, LinearArguments<Out> p, bool pdl, int split = 1, int blocks = 0) {
  if (split < 1 || split > ceil_div(p.K, Tile::BK))
    throw BadInput(fmt::format("linear_sm90: K={} in {} pieces; each needs {} of it", p.K, split, Tile::BK));
  constexpr uint32_t kColumns = 64, BM = Tile::BM, BN = Tile::BN;  // columns of 2 bytes: the 128 of a swizzled row
  const auto M = uint64_t(p.M), N = uint64_t(p.N), K = uint64_t(p.K);
  const unsigned items = blocks_of(p.M, Tile::BM, p.N, Tile::BN) * unsigned(split);
  const TensorMap x_map = make_tensor_map(p.x, {{K, M}, {K}, {kColumns, BM}});
  TensorMap w_map, y_map{};
  if constexpr (END == LinearEnd::kSwiglu) {  // [N / 16][gate, up][8][K]: gate and up alternate in eights
    p.N /= 2;
    w_map = make_tensor_map(p.W, {{K, 8, 2, N / 16}, {K, N / 2 * K, 8 * K}, {kColumns, 8, 2, BN / 16}});
  } else {
    w_map = make_tensor_map(p.W, {{K, N}, {K}, {kColumns, BN}});
  }
  if constexpr (sizeof(Out) == 2) y_map = make_tensor_map(p.y, {{uint64_t(p.N), M}, {uint64_t(p.N)}, {kColumns, 64}});
  const unsigned most = unsigned(blocks > 0 ? blocks : device().multiprocessors);
  launch(linear_sm90_kernel<Tile, END, Out>, dim3(std::min(items, most)), dim3(Tile::THREADS),
         on(stream).smem(Tile::SHARED).pdl(pdl), x_map, w_map, y_map, p, split);
}

template <LinearEnd END = LinearEnd::kStore, class Out>
void launch_linear_sm90_plan(Stream& stream, const LinearArguments<Out>& p, const LinearPlan& plan, bool pdl) {
  if (plan.BN == 256) {
    launch_linear_sm90<LinearTileSm90x256, END>(stream, p, pdl, plan.split);
  } else if (plan.BN == 128) {
    launch_linear_sm90<LinearTileSm90x128, END>(stream, p, pdl, plan.split);
  } else if constexpr (END == LinearEnd::kStore) {
    launch_linear_sm90<LinearTileSm90x64, END>(stream, p, pdl, plan.split);
  }
}
