// 04 · stream-K, the plan: which k tiles of which tiles of C a block computes
//
// Whole tiles go out in waves, and the last wave takes as long as a full one. Stream-K (M. Osama and others, PPoPP 2023)
// lays the k tiles of all tiles in one row and gives every multiprocessor the same share of that row. Here, as in the
// paper's two-tile hybrid, only the part that whole waves leave over is cut, together with one wave more, so that a share
// is one to two tiles long and a tile has at most two pieces. Pure arithmetic, the same on host and device.
#pragma once
#include "common/device.hpp"

struct StreamKPlan {
  int tiles = 0;   // of C
  int depth = 0;   // k tiles of each
  int ranges = 0;  // equal shares, one block each, into which …
  int cut = 0;     // … the first `cut` tiles are cut; the others get one block each

  __host__ __device__ constexpr int blocks() const { return ranges + tiles - cut; }

  // [shares]
  // Block b computes the k tiles begin(b) … begin(b + 1) of the row. The ranges come first in the grid: the pieces are
  // added up while whole tiles keep all multiprocessors busy.
  __host__ __device__ constexpr int64_t begin(int block) const {
    return block < ranges ? int64_t(cut) * depth * block / ranges : int64_t(cut + block - ranges) * depth;
  }
  // [/shares]
  // The block whose range holds this k tile of the row: the inverse of begin(), for the tiles that are cut.
  __host__ __device__ constexpr int range_of(int64_t k_tile) const {
    return int(((k_tile + 1) * ranges - 1) / (int64_t(cut) * depth));
  }

  // The k tiles begin … end of one tile.
  struct Piece {
    int tile, begin, end;
  };
  // What starts at place `at` of the row and belongs to one tile, for a block that computes up to `end`.
  __host__ __device__ constexpr Piece piece(int64_t at, int64_t end) const {
    const int tile = int(at / depth), begin = int(at - int64_t(tile) * depth);
    return {tile, begin, end - at < depth - begin ? begin + int(end - at) : depth};
  }
  __host__ __device__ constexpr bool whole(const Piece& p) const { return p.begin == 0 && p.end == depth; }

  // The pieces of a tile that is cut are those of ranges first_range … last_range.
  __host__ __device__ constexpr int first_range(int tile) const { return range_of(int64_t(tile) * depth); }
  __host__ __device__ constexpr int last_range(int tile) const { return range_of(int64_t(tile + 1) * depth - 1); }
  // Where a piece that is not whole leaves its sums: between two ranges lie two places, one for the piece that ends
  // there and one for the piece that begins there.
  __host__ __device__ constexpr int slot(int range, bool begins_tile) const { return 2 * range - !begins_tile; }
  constexpr int slots() const { return ranges > 0 ? 2 * (ranges - 1) : 0; }
  constexpr int most_pieces() const { return ranges > 0 ? ceil_div(ranges, cut) + 1 : 1; }
};

// A share shorter than this costs more to move than it saves.
constexpr int kLeastShare = 4;  // k tiles
// Moving the sums of a tile takes as long as this many k tiles of 16: 4 bytes a float at 64 bytes a clock are 1/16 clock,
// a k tile takes 16 / (128 FMA lanes · 0.75) = 1/6 clock a float.
constexpr double kMoveTime = 6.0 / 16;

// The time of the busiest multiprocessor, in k tiles: its share, its part of the whole waves, and what it moves: the
// sums of two pieces out, and all pieces of one tile in again.
constexpr double stream_k_time(const StreamKPlan& p, int multiprocessors) {
  const double waves = double(ceil_div(p.tiles - p.cut, multiprocessors)) * p.depth;
  return p.ranges == 0 ? waves : waves + double(p.cut) * p.depth / p.ranges + (2 + p.most_pieces()) * kMoveTime;
}

// tiles, depth, multiprocessors ≥ 1. Cuts only what comes out faster.
constexpr StreamKPlan stream_k_plan(int tiles, int depth, int multiprocessors) {
  const StreamKPlan whole{tiles, depth, 0, 0};
  const int left = tiles % multiprocessors;
  if (left == 0) return whole;
  StreamKPlan plan{tiles, depth, multiprocessors, left + multiprocessors};
  if (tiles < multiprocessors) {
    const int64_t most = int64_t(tiles) * depth / kLeastShare;
    plan.ranges = most < multiprocessors ? int(most) : multiprocessors;
    plan.cut = tiles;
    if (plan.ranges <= tiles) return whole;  // shares of a tile and more
  }
  return stream_k_time(plan, multiprocessors) < stream_k_time(whole, multiprocessors) ? plan : whole;
}
