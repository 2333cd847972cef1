// 08 · what a tile of linear_mma.cuh or linear_sm90.cuh would cost, so that the cheapest is taken
#pragma once
#include <algorithm>
#include <cmath>

#include "common/device.hpp"

// How a shape is cut: the tile, and into how many pieces K is.
struct LinearPlan {
  int BM, BN, split;
  double clocks;  // the estimate it won with
};

// Clocks a multiprocessor needs: the most of
//   mma     2048 multiplications a clock are an H200's peak; mma.sync reaches about 1270 of them
//   L2      32 bytes a clock for each multiprocessor while all load, 64 into one
// and, where K is cut, the partial sums, which travel twice. It is a comparison of tiles, not a prediction to the
// microsecond: start and end of a kernel are in none of them.
constexpr double kMmaSyncRate = 1270;
inline LinearPlan linear_estimate(int BM, int BN, int split, int M, int N, int K, double mma_rate = kMmaSyncRate) {
  const double processors = device().multiprocessors, blocks = double(ceil_div(M, BM)) * ceil_div(N, BN) * split;
  const double rounds = std::ceil(blocks / processors), bytes = 128.0 * (BM + BN);  // of one tile of K
  const double mma = rounds * BM * BN * 64 / mma_rate, all_load = blocks / processors * bytes / 32,
               one_loads = rounds * bytes / 64;
  const double partials = split > 1 ? 8.0 * split * M * N / (24 * processors) : 0;
  return {BM, BN, split, std::max({mma, all_load, one_loads}) * ceil_div(ceil_div(K, 64), split) + partials};
}
