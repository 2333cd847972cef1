// Puts the accesses of single lanes together to requests of a warp, and adds up what the requests cost.
//
// The lanes of a warp run one after the other, so a request stays open until the last lane has passed it. The open ones
// are a list in the order in which the warp would execute them, and each lane walks along it. Where lanes go different
// ways, addresses of instructions decide, as they rise from the top of a loop's body to its end: a lane that comes to an
// instruction passes those in front of it that it has not executed; one that goes back, to the next turn of a loop, passes
// the rest of the turn that the others are in. Where that finds nothing, it is looked for in the rest of the turn.
#pragma once
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
  bool async;  // what a cp.async stores
  bool operator==(const Instruction& o) const {
    return pc == o.pc && space == o.space && load == o.load && bytes == o.bytes && async == o.async;
  }
};

struct Tally {
  uint64_t requests = 0, lanes = 0, sectors = 0, l1_lines = 0, wavefronts = 0, least_wavefronts = 0;
};

class RequestLog {
 public:
  RequestLog();
  void add(const Instruction& instruction, int lane, uintptr_t address);
  // The lane comes by a comparison. It costs nothing, but lanes that then go different ways can be told apart: in a loop,
  // who stores in this turn from who stores in the next. False: it came by the same one last, nothing new.
  bool pass(const void* pc, int lane);
  void close_all();
  // Closes what the lanes of the mask have all passed; all of it where lanes have gone so different ways that too much
  // would stay open.
  void close_passed(unsigned lanes);
  void next_warp();
  // Everything counted since the last call; nothing is open then.
  std::vector<std::pair<Instruction, Tally>> take();

 private:
  struct Source {
    Instruction instruction;
    Tally tally;
    std::vector<int> followed_by;  // instructions that a lane has come to next
    int last_follower = -1;        // the last of them
    uint64_t walk = 0;             // the last walk that came by
  };
  struct Open {
    int source;
    int next;  // index of the request behind it in the list
    uintptr_t pc;
    unsigned lanes;
    std::array<int64_t, 32> address;
  };
  static constexpr size_t kMostOpen = 1 << 13;
  uintptr_t address_of(int source) const { return reinterpret_cast<uintptr_t>(sources_[source].instruction.pc); }
  bool is_comparison(int source) const { return sources_[source].instruction.bytes == 0; }
  int source_of(const Instruction& instruction);
  void grow();
  bool open_later(int source, int from) const;
  int later(int source, int from);
  bool returns_to_loop(int source, uintptr_t end_of_loop);
  bool leads_to(int from, int to, int avoided);
  void take_part(int index, uintptr_t pc, int lane);
  int find(int source, uintptr_t pc, int lane);
  void close(const Open& open);
  void clear();

  std::vector<Source> sources_;
  std::vector<int> table_;  // hash table of indices into sources_, -1: free
  std::vector<Open> open_;  // [0] is the head of the list, no request
  uint64_t walk_ = 0;
  std::vector<int> ways_;            // of one walk
  std::array<int, 32> at_;           // the last request that each lane took part in; 0: none that is open
  std::array<uintptr_t, 32> pc_;     // and its instruction, be it open or not
  std::array<int, 32> last_source_;  // likewise, -1: none yet
};

}  // namespace simt
