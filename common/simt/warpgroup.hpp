// wgmma for the executor: what four warps have under way on the tensor cores. Layouts are those of the PTX ISA, section
// "Asynchronous warpgroup level matrix instructions".
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/simt/executor.hpp"

namespace simt {

class BlockRunner;

// What one thread brings to d[64, N] (+)= a[64, 16] · b[16, N]; a and b bfloat16, d float.
struct WgmmaOperands {
  float* d;           // N / 2 values: 4i + j is row 16 · warp + lane / 4 + 8 (j / 2), column 8i + 2 (lane % 4) + j % 2
  const uint32_t* a;  // 4 pairs as mma.m16n8k16 takes them, rows of this warp; or null: a_descriptor
  uint64_t a_descriptor, b_descriptor;
  int N;
  bool add;           // false: d = a · b
  bool transposed_b;  // N is contiguous in shared memory, not K
};

class Warpgroup {
 public:
  static constexpr int kThreads = 128;
  Warpgroup(BlockRunner& runner, int first_thread) : runner_(runner), first_(first_thread) {}

  // Called by each of the 128 threads; the last one starts the operation.
  void mma(const WgmmaOperands& operands, Site site);
  void fence();
  void commit();
  void wait(int groups_left);

  void thread_ends(int thread) const;
  std::string waiting() const;     // for the report of a deadlock
  const Site* unfinished() const;  // a wgmma that a thread has never waited for, or null
  // One that reads some of these bytes of shared memory and that a warp has not waited for, or null.
  const Site* reading(uint32_t first, uint32_t end) const;

 private:
  // 64 × N registers of the 128 threads with operations under way; they read as NaN until they are waited for.
  struct Accumulator {
    std::vector<float*> d;
    int N = 0;
    std::vector<float> value;  // [64][N]
    uint64_t last = 0;         // number of its newest operation
    std::vector<bool> delivered;
    Site site{"", 0};
  };
  struct Operation {
    uint64_t number;
    std::shared_ptr<Accumulator> accumulator;
    WgmmaOperands operands;
    std::vector<float> a;  // [64][16] where it comes from registers, which are read when the operation starts
  };
  struct ThreadState {
    bool here = false, fenced = false;
    WgmmaOperands operands{};
    std::vector<uint64_t> group_ends;  // operations issued at each commit
  };

  struct Reading {
    uint64_t number;      // of the operation
    uint32_t first, end;  // bytes of shared memory
    unsigned waited;      // bit i: a lane of warp i has waited for it
    Site site;
  };

  void start(Site site);
  std::shared_ptr<Accumulator> accumulator(Site site);
  void carry_out(const Operation& operation);
  void deliver(Accumulator& accumulator, int lane);

  BlockRunner& runner_;
  int first_;
  int arrived_ = 0;
  Site site_{"", 0};
  std::vector<ThreadState> threads_ = std::vector<ThreadState>(kThreads);
  std::vector<std::shared_ptr<Accumulator>> accumulators_;  // not delivered to every thread yet
  std::deque<Operation> operations_;                        // not carried out yet
  std::deque<Reading> readings_;                            // not waited for by every warp yet
  uint64_t issued_ = 0;
};

}  // namespace simt
