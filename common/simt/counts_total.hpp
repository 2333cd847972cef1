// Where the host threads bring what they have counted; counts.hpp gives it out.
#pragma once
#include "common/simt/executor.hpp"
#include "common/simt/request_log.hpp"

namespace simt {

struct BarrierTally {
  Site site;
  bool of_warp;
  uint64_t count;
};

// A launch of so many blocks of so many threads, before its first block runs.
void count_launch(const void* kernel, uint64_t blocks, uint64_t threads_per_block);
void add_to_total(const void* kernel, const std::vector<BarrierTally>& barriers,
                  const std::vector<std::pair<Instruction, Tally>>& tallies);

}  // namespace simt
