// What one warp request costs on the memory pipes, computed from its addresses alone.
//
// The rule was checked against Nsight Compute's counters on an H200 (sm_90): hw_requests.json beside this file holds
// patterns with the counted wavefronts and sectors, and the test compares every one of them.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

namespace simt {

// One load or store of a warp: every active lane moves `bytes` bytes at its own address.
struct WarpRequest {
  int bytes = 4;  // 2, 4, 8 or 16 a lane
  bool load = true;
  std::array<int64_t, 32> address;  // in bytes, −1 for an inactive lane; shared memory: from a 128-byte boundary on
  WarpRequest() { address.fill(-1); }
};

// How a request is served: wavefronts it takes, and the fewest a request of its width can take.
struct SharedCost {
  int wavefronts = 0, least = 0;
};

// The distinct words that lanes want of each of the 32 banks: a chain per bank. An instrumented build asks this for every
// request, so nothing is allocated.
class BankWords {
 public:
  BankWords() { first_.fill(-1), count_.fill(0); }
  void add(int64_t word) {
    const size_t bank = static_cast<size_t>(word % 32);
    for (int i = first_[bank]; i >= 0; i = next_[i])
      if (word_[i] == word) return;
    word_[used_] = word;
    next_[used_] = first_[bank];
    first_[bank] = used_++;
    most_ = std::max(most_, ++count_[bank]);
  }
  int most() const { return most_; }

 private:
  static constexpr int kMost = 32 * 5;  // 16 bytes that start between words touch five
  std::array<int64_t, kMost> word_;
  std::array<int, kMost> next_;
  std::array<int, 32> first_, count_;
  int used_ = 0, most_ = 0;
};

// Shared memory has 32 banks of 4 bytes. A part of the warp takes as many wavefronts as the bank with the most distinct
// words; lanes that want the same word share it. The parts are the whole warp for up to 4 bytes a lane, halves for 8 and
// quarters for 16. Loads whose lanes agree in pairs (l and l ^ 1, or l and l ^ 2) are served in parts twice as large.
inline SharedCost shared_cost(const WarpRequest& r) {
  const auto paired = [&](int flip) {
    for (int lane = 0; lane < 32; ++lane) {
      const int64_t mine = r.address[lane], other = r.address[lane ^ flip];
      if (mine >= 0 && other >= 0 && mine != other) return false;
    }
    return true;
  };
  int lanes = r.bytes <= 4 ? 32 : 128 / r.bytes;  // of one part
  if (r.load && lanes < 32 && (paired(1) || paired(2))) lanes *= 2;
  SharedCost cost;
  for (int first = 0; first < 32; first += lanes) {
    BankWords words;
    for (int lane = first; lane < first + lanes; ++lane)
      if (r.address[lane] >= 0)
        for (int64_t word = r.address[lane] / 4; word * 4 < r.address[lane] + r.bytes; ++word) words.add(word);
    cost.wavefronts += words.most();
    cost.least += words.most() > 0;
  }
  return cost;
}

// How many different pieces of `size` bytes, a power of two of at least 32, a request touches.
inline int pieces_touched(const WarpRequest& r, int size) {
  std::array<int64_t, 64> seen;  // a lane touches two at most
  int count = 0;
  int64_t last = -1;
  for (const int64_t address : r.address) {
    if (address < 0) continue;
    for (int64_t piece = address / size; piece * size < address + r.bytes; ++piece) {
      if (piece == last) continue;
      last = piece;
      if (std::find(seen.begin(), seen.begin() + count, piece) == seen.begin() + count) seen[count++] = piece;
    }
  }
  return count;
}

// Global memory moves sectors of 32 bytes, as many as the request touches, and looks up lines of 128 bytes.
inline int global_sectors(const WarpRequest& r) { return pieces_touched(r, 32); }
inline int global_lines(const WarpRequest& r) { return pieces_touched(r, 128); }

// The request in which every lane moves `bytes` bytes at byte address at(lane).
template <class Address>
WarpRequest warp_request(bool load, int bytes, Address at) {
  WarpRequest r;
  r.load = load;
  r.bytes = bytes;
  for (int lane = 0; lane < 32; ++lane) r.address[lane] = at(lane);
  return r;
}

}  // namespace simt
