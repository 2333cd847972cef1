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
  int rows, cols;     // of C, that a block computes
  int blocks_per_sm;  // that a multiprocessor needs to be busy
  double fma_share;   // FMAs among the issue slots of the main loop: instructions, and one more for each bank conflict
};

// fma_share is counted in the compiled loops (nvcc 13.0, sm_90a, 16-byte path; cuobjdump -sass). What it has to predict is
// the order of the rows in results/ that carry a tile's name: 8192×8192×8192, where every tile fills the card, for the
// shares; 2048×2048×2048, 1024×1024×1024, 127×4096×4096 and 512×512×512 for the five choices.
inline const TileChoice kTiles[] = {
    {"128×256×8", gemm_warp_tile<Tile128x256>, 128, 256, 1, 0.85},
    {"128×128×16", gemm_warp_tile<Tile128x128>, 128, 128, 2, 0.85},
    {"64×64×32, K over 4", gemm_warp_tile<Tile64x64>, 64, 64, 2, 0.75},
    {"64×64×32, K over 8", gemm_warp_tile<Tile64x64Alone>, 64, 64, 1, 0.70},
    {"32×64×64, K over 8", gemm_warp_tile<Tile32x64>, 32, 64, 1, 0.70},
};

// The time a tile needs for C on a card, in clocks per k and FMA lane: whole waves of blocks, full or not, of the
// elements that a multiprocessor computes meanwhile.
inline double predicted_time(const TileChoice& tile, double M, double N, int multiprocessors) {
  const auto whole = [](double x) { return double(int64_t(x) + (double(int64_t(x)) < x)); };
  const double blocks = whole(M / tile.rows) * whole(N / tile.cols);
  return whole(blocks / (multiprocessors * tile.blocks_per_sm)) * tile.blocks_per_sm * tile.rows * tile.cols /
         tile.fma_share;
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
