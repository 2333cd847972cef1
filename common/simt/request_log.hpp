// Puts the accesses of single lanes together to requests of a warp, and adds up what the requests cost.
//
// The lanes of a warp run one after the other, so a request is open until the last lane has passed it. Two accesses belong
// to one request when they come from the same instruction and neither lane has to go back for it in the order in which
// the warp has met its instructions so far. Requests that every lane has passed are counted and forgotten.
#pragma once
#include <unordered_map>
#include <vector>

#include "common/simt/counts.hpp"
#include "common/simt/request_cost.hpp"

namespace simt {

// What one load or store instruction is told apart by.
struct Instruction {
  const void* pc;
  Space space;
  bool load;
  int bytes;
  bool operator==(const Instruction& o) const {
    return pc == o.pc && space == o.space && load == o.load && bytes == o.bytes;
  }
};

struct Tally {
  uint64_t requests = 0, lanes = 0, sectors = 0, l1_lines = 0, wavefronts = 0, least_wavefronts = 0;
};

class RequestLog {
 public:
  RequestLog();
  void add(const Instruction& instruction, int lane, uintptr_t address);
  void close_all();
  // Closes what the lanes of the mask have all passed; all of it where lanes have gone so different ways that too much
  // would stay open.
  void close_passed(unsigned lanes);
  // Everything counted since the last call; nothing is open then.
  std::vector<std::pair<Instruction, Tally>> take();

 private:
  struct Open {
    uint64_t order;
    unsigned lanes;
    std::array<int64_t, 32> address;
  };
  struct Source {
    Instruction instruction;
    Tally tally;
    std::vector<Open> open;
    uint64_t generation = 0;        // `open` and `next` are of this one, else empty
    std::array<uint32_t, 32> next;  // the first open request that a lane may still join
  };
  static constexpr uint64_t kGap = 1 << 20;  // between the orders of two requests: room for those of other branches
  static constexpr size_t kMostOpen = 1 << 14;
  Source& source_of(const Instruction& instruction);
  void grow();
  static void close(Source& source, const Open& open);

  std::vector<Source> sources_;
  std::vector<int> table_;    // hash table of indices into sources_, -1: free
  std::vector<int> touched_;  // sources that have open requests
  uint64_t generation_ = 1, last_order_ = 0;
  size_t open_count_ = 0;
  std::array<uint64_t, 32> passed_{};  // order of the last request that each lane took part in
};

}  // namespace simt
