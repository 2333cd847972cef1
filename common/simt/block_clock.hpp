// Which earlier accesses of a block a thread can rely on: those before a barrier, and in its own warp those before a
// meeting (__syncwarp, shuffle, vote, mma) of both lanes, directly or over a third one.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace simt {

class BlockClock {
 public:
  void block_begins(int threads) {
    epoch_ = 0;
    warps_.resize(static_cast<size_t>(threads + 31) / 32);
    for (Warp& warp : warps_) {
      warp.sync = warp.all_met = 0;
      for (auto& row : warp.known) row.fill(0);
    }
  }
  void barrier() { ++epoch_; }
  void meeting(int warp_index, unsigned lanes) {
    Warp& warp = warps_[static_cast<size_t>(warp_index)];
    ++warp.sync;
    if (lanes == 0xffffffffu) {
      warp.all_met = warp.sync;
      return;
    }
    std::array<uint32_t, 32> together{};  // what one of them knew, all of them know now
    for (int lane = 0; lane < 32; ++lane)
      if (lanes >> lane & 1)
        for (size_t other = 0; other < 32; ++other)
          if (warp.known[lane][other] > together[other]) together[other] = warp.known[lane][other];
    for (size_t lane = 0; lane < 32; ++lane)
      if (lanes >> lane & 1) together[lane] = warp.sync;
    for (size_t lane = 0; lane < 32; ++lane)
      if (lanes >> lane & 1) warp.known[lane] = together;
  }
  uint32_t epoch() const { return epoch_; }
  uint32_t sync(int warp) const { return warps_[static_cast<size_t>(warp)].sync; }
  // Has `thread` met `other`, of the same warp, since the warp's meeting number `sync`?
  bool met_since(int thread, int other, uint32_t sync) const {
    const Warp& warp = warps_[static_cast<size_t>(thread) / 32];
    return warp.all_met > sync || warp.known[static_cast<size_t>(thread) % 32][static_cast<size_t>(other) % 32] > sync;
  }

 private:
  struct Warp {
    uint32_t sync, all_met;  // meetings so far; the last one of all lanes
    std::array<std::array<uint32_t, 32>, 32> known;
  };
  std::vector<Warp> warps_;
  uint32_t epoch_ = 0;
};

}  // namespace simt
