// Finds the accesses that no rule of CUDA orders: two threads, one address, at least one of them writes, and neither a
// barrier nor a meeting of the warp nor an atomic lies between. Also reads of shared memory that nobody has written.
#pragma once
#include <optional>

#include "common/simt/block_clock.hpp"
#include "common/simt/block_order.hpp"
#include "common/simt/device_memory.hpp"

namespace simt {

enum class AccessKind { read, write, atomic, async_write };

// Why an access is wrong, and the other thread that makes it so.
struct Conflict {
  enum Reason { uninitialised, async_copy, written, read } reason;
  uint32_t block = 0;  // number in the process
  int thread = 0;
  uint32_t pc = 0;
  bool same_warp = false;
};

// The accesses of one block after the other, of blocks that one host thread runs.
class MemoryCheck {
 public:
  void block_begins(uint32_t first_block_of_launch, uint32_t block, int threads);
  BlockClock& clock() { return clock_; }
  uint32_t block() const { return block_; }

  // An access of `bytes` bytes at byte `offset` of the memory that `cells` stand for.
  std::optional<Conflict> access(Cell* cells, uintptr_t offset, int bytes, AccessKind kind, int thread, uint32_t pc,
                                 bool shared);
  // A copy that `thread` has waited for is an ordinary write now.
  void async_done(Cell* cells, uintptr_t offset, int bytes, int thread);
  // __threadfence, and an atomic on a word of global memory
  void fence(int thread) { fenced_[static_cast<size_t>(thread)] = true; }
  void announce(int thread, uintptr_t word);

 private:
  std::optional<Conflict> after_write(const Cell& cell, AccessKind kind, int thread) const;
  std::optional<Conflict> after_read(const Cell& cell, int thread) const;
  void note_read(Cell& cell, unsigned bytes, int thread, uint32_t pc);
  void note_write(Cell& cell, unsigned bytes, AccessKind kind, int thread, uint32_t pc);

  BlockClock clock_;
  uint32_t first_block_ = 1, block_ = 0;
  std::vector<bool> fenced_;  // threads that have called __threadfence
};

}  // namespace simt
