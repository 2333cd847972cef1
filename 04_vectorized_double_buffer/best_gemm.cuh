// 04 · the best GEMM of this tutorial: one table that says which tile computes which C
//
// A tile can be good in two ways: a large one needs fewer instructions around each FMA, a small one leaves fewer
// multiprocessors idle. Both are numbers, so the choice is one line of arithmetic and no trial at run time. The largest
// tile is the stream-K form, which leaves none idle but pays for what it moves.
#pragma once
#include <string>

#include "04_vectorized_double_buffer/skinny_gemm.cuh"
#include "04_vectorized_double_buffer/stream_k_gemm.cuh"
#include "04_vectorized_double_buffer/warp_tile_gemm.cuh"

struct TileChoice {
  const char* name;
  GemmLauncher launcher;
  int rows, cols;  // of C, that a block computes
  bool stream_k;   // cut into equal shares; else whole tiles alone
  // FLOP/s as a share of the peak of the multiprocessors at work: with one block each, and with as many as they hold.
  double alone, filled;
};

// Measured on an H200, in results/h200.json: the rows with a tile's name, and for the first "04 + register banks", the same
// tile in whole waves. `filled` is that of 8192×8192×8192, `alone` that of 2048×2048×2048, 1024×1024×1024, 127×4096×4096
// and 512×512×512, tile by tile.
inline const TileChoice kTiles[] = {
    {"128×256×16, stream-K", gemm_stream_k, 128, 256, true, 0.74, 0.75},
    {"128×128×16", gemm_warp_tile<Tile128x128>, 128, 128, false, 0.41, 0.72},
    {"64×64×32, K over 4", gemm_warp_tile<Tile64x64>, 64, 64, false, 0.56, 0.71},
    {"32×64×64, K over 8", gemm_warp_tile<Tile32x64>, 32, 64, false, 0.45, 0.50},
};

// The time a tile needs for C on a card, in clocks per k and FMA lane: the busiest multiprocessor's blocks.
inline double predicted_time(const TileChoice& tile, const Gemm& p, int multiprocessors) {
  const int64_t blocks = int64_t(ceil_div(p.M, tile.rows)) * ceil_div(p.N, tile.cols);
  double each = double(ceil_div(blocks, int64_t(multiprocessors)));
  const double rate = each == 1 ? tile.alone : tile.filled;
  if (tile.stream_k) {
    const StreamKPlan plan = stream_k_plan<StreamKTile>(p, multiprocessors);
    each = stream_k_time(plan, multiprocessors) / plan.depth;
  }
  return each * tile.rows * tile.cols / rate;
}

inline const TileChoice& best_tile(const Gemm& p, int multiprocessors) {
  const TileChoice* best = kTiles;
  for (const TileChoice& tile : kTiles)
    if (predicted_time(tile, p, multiprocessors) < predicted_time(*best, p, multiprocessors)) best = &tile;
  return *best;
}

inline void gemm_best(Stream& stream, const Gemm& p) {
  if (p.M <= SkinnyTile::kMostRows)
    gemm_skinny(stream, p);
  else
    best_tile(p, device().multiprocessors).launcher(stream, p);
}

// For the table of the step: what was chosen, and why it may be slower than it could be.
inline std::string best_path(const Gemm& p) {
  if (p.M <= SkinnyTile::kMostRows) return "skinny, " + vector_path(p);
  return std::string("tile ") + best_tile(p, device().multiprocessors).name + ", " + copy_path(p);
}
