// The observer of an instrumented build: every load and store of a kernel comes by here, is checked, and is counted.
#pragma once
#include <atomic>

#include "common/simt/block_runner.hpp"
#include "common/simt/counts_total.hpp"
#include "common/simt/memory_check.hpp"

namespace simt {

// Two host threads may come to one word of global memory at a time.
extern std::atomic_flag cell_locks[1024];
class CellLock {
 public:
  CellLock(uintptr_t address, bool needed) : flag_(needed ? &cell_locks[address / 64 % 1024] : nullptr) {
    if (flag_)
      while (flag_->test_and_set(std::memory_order_acquire)) {
      }
  }
  ~CellLock() {
    if (flag_) flag_->clear(std::memory_order_release);
  }
  CellLock(const CellLock&) = delete;

 private:
  std::atomic_flag* flag_;
};

const char* verb(AccessKind kind);  // "reads"

class Recorder : public Observer {
 public:
  Recorder();
  ~Recorder() override;

  void access(uintptr_t address, int bytes, AccessKind kind, const void* pc);
  void comparison(const void* pc);
  // Ends the block with an error.
  [[noreturn]] void give_up(const std::string& location, const std::string& reason);

  // Does an atomic operation, true where it succeeds, at the place in the order of all that it is noted with.
  template <class Operation>
  bool in_order(uintptr_t address, Operation operation) {
    const CellLock lock(address, !alone_);
    const bool done = operation();
    if (done) check_.announce(runner_->current(), address);
    return done;
  }

  void block_begins(BlockRunner& runner, const Work& work, uint32_t first_block, size_t shared_bytes) override;
  std::string block_ends() override;
  void kernel_ends() override;
  void turn_begins() override { accesses_left_ = kTurn; }
  void round_ends(const std::vector<int>& paused) override;
  void barrier(Site site) override;
  void meeting(const Meeting& meeting) override;
  void copy_begins(const AsyncCopy& copy) override;
  void copy_ends(const AsyncCopy& copy) override;
  void fence() override { check_.fence(runner_->current()); }

 private:
  // After so many accesses and comparisons a lane lets the rest of its warp catch up: that bounds what is open in the log.
  static constexpr int kTurn = 64;
  struct Place {
    Space space;
    Cell* cells;       // null: not memory of the device
    uintptr_t offset;  // from the cells' first byte
  };
  [[noreturn]] void give_up_outside(uintptr_t address, int bytes, AccessKind kind, const void* pc);
  Place place_of(uintptr_t address, int bytes, AccessKind kind, const void* pc);
  const DeviceRange* range_of(uintptr_t address, const void* pc);
  void count_barrier(Site site, bool of_warp);
  int lane_of_log();
  void one_done();
  bool of_the_host(uintptr_t address) const;
  void report(const Conflict& conflict, Space space, int bytes, AccessKind kind, const void* pc);
  std::string name_of(uint32_t block, int thread) const;

  BlockRunner* runner_ = nullptr;
  const Work* work_ = nullptr;
  uint32_t first_block_ = 0;
  std::vector<BarrierTally> barriers_;
  // A read of shared memory that nobody had written then. It is an error of its own if nobody does before the next
  // barrier; else it is one side of a race, and the write will tell.
  std::string uninitialised_;
  int warp_ = -1, accesses_left_ = kTurn;
  bool alone_ = false;  // no other host thread runs blocks
  MemoryCheck check_;
  RequestLog log_;

  uintptr_t dynamic_begin_ = 0, dynamic_bytes_ = 0;
  const ThreadLocals thread_locals_ = thread_locals();
  uintptr_t static_begin_ = 0, static_bytes_ = 0;  // the same, from a 16-byte boundary on
  Cell *dynamic_cells_ = nullptr, *static_cells_ = nullptr;
  std::vector<DeviceRange> ranges_;
  uint64_t ranges_version_ = 0;
  std::array<size_t, 64> range_hint_{};  // by program counter
};

}  // namespace simt
