// 04 · the best GEMM of this tutorial: one table that says which tile computes which C
//
// A tile can be good in two ways: a large one needs fewer instructions around each FMA, a small one leaves fewer
// multiprocessors idle. Both are numbers, so the choice is one line of arithmetic and no trial at run time.
#pragma once
#include <string>

#include "04_vectorized_double_buffer/skinny_gemm.cuh"
#include "04_vectorized_double_buffer/warp_tile_gemm.cuh"

struct TileChoice {
  const char* name;
  GemmLauncher launcher;
  int rows, cols;  // of C, that a block computes
  // FLOP/s as a share of the peak of the multiprocessors at work: with one block each, and with as many as they hold.
  double alone, filled;
};

// Measured on an H200, in results/h200.json: the rows with a tile's name, and "04 + register banks" for the first. `filled`
// is that of 8192×8192×8192, `alone` that of 2048×2048×2048, 1024×1024×1024, 127×4096×4096 and 512×512×512, tile by tile.
inline const TileChoice kTiles[] = {
    {"128×256×16", gemm_warp_tile<Tile128x256>, 128, 256, 0.74, 0.75},
    {"128×128×16", gemm_warp_tile<Tile128x128>, 128, 128, 0.41, 0.72},
    {"64×64×32, K over 4", gemm_warp_tile<Tile64x64>, 64, 64, 0.56, 0.71},
    {"32×64×64, K over 8", gemm_warp_tile<Tile32x64>, 32, 64, 0.45, 0.50},
};

// The time a tile needs for C on a card, in clocks per k and FMA lane: the busiest multiprocessor's blocks.
inline double predicted_time(const TileChoice& tile, int64_t M, int64_t N, int multiprocessors) {
  const int64_t blocks = ceil_div(M, int64_t(tile.rows)) * ceil_div(N, int64_t(tile.cols));
  const int64_t each = ceil_div(blocks, int64_t(multiprocessors));
  return double(each * tile.rows * tile.cols) / (each == 1 ? tile.alone : tile.filled);
}

inline const TileChoice& best_tile(const Gemm& p, int multiprocessors) {
  const TileChoice* best = kTiles;
  for (const TileChoice& tile : kTiles)
    if (predicted_time(tile, p.M, p.N, multiprocessors) < predicted_time(*best, p.M, p.N, multiprocessors))
      best = &tile;
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
