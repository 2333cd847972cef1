// Which earlier accesses of another block a thread can rely on: those that a thread behind its __threadfence announced
// with an atomic on a word of global memory, where an atomic of the reader's block on that word came later.
#pragma once
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace simt {

// A thread's place in its block.
struct Moment {
  uint32_t block, epoch;
  int thread;
};

class BlockOrder {
 public:
  // Called for every block; a launch is known by its first one.
  void launch_begins(uint32_t first_block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (first_block == first_block_) return;
    first_block_ = first_block;
    tickets_.clear();
  }
  // An atomic of a thread that has called __threadfence.
  void announce(const Moment& at, uintptr_t word) {
    const std::lock_guard<std::mutex> lock(mutex_);
    tickets_[at.block].push_back({word, next_++, at.epoch, at.thread});
  }
  bool ordered(const Moment& before, const Moment& now) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto from = tickets_.find(before.block), to = tickets_.find(now.block);
    if (from == tickets_.end() || to == tickets_.end()) return false;
    for (const Ticket& given : from->second) {
      if (given.epoch <= before.epoch && given.thread != before.thread) continue;  // did not know of that access
      for (const Ticket& taken : to->second)
        if (taken.word == given.word && taken.number > given.number &&
            (taken.epoch < now.epoch || taken.thread == now.thread))
          return true;
    }
    return false;
  }

 private:
  struct Ticket {
    uintptr_t word;
    uint64_t number;
    uint32_t epoch;
    int thread;
  };
  std::mutex mutex_;
  std::unordered_map<uint32_t, std::vector<Ticket>> tickets_;  // by block
  uint64_t next_ = 0;
  uint32_t first_block_ = 0;
};

}  // namespace simt
