// Runs the blocks that one host thread is given: the fibers, and what happens where they meet.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "common/simt/fiber.hpp"
#include "common/simt/hopper.hpp"
#include "common/simt/observer.hpp"
#include "common/simt/static_shared.hpp"

namespace simt {

constexpr int kWarp = 32;
constexpr size_t kSharedCapacity = 228 * 1024;

struct Thread {
  uint3 index;
  bool finished = false;
  Fiber* fiber = nullptr;
};

// A thread's asynchronous copies; apart from the rest, which every barrier walks through.
struct ThreadCopies {
  std::vector<AsyncCopy> copies;   // issued, not yet waited for
  std::vector<size_t> group_ends;  // copies.size() at each commit
};

// Lanes that wait for each other at one warp-wide operation.
struct WarpMeeting {
  unsigned mask, arrived;
  WarpOperation operation;
  Site site;
  void* slots[kWarp];
};

// A kernel on its way.
struct Launch {
  Work work;
  dim3 grid, block;
  size_t shared_bytes;
  uint32_t first_block;  // the number of block 0 in the process
  StaticShared arrays;
};

// "gemm_tiled<32>", from the kernel's address.
std::string kernel_name(const void* kernel);

class BlockRunner {
 public:
  void run(const Launch& launch, uint3 block_index);

  int barrier(Site site, int vote);
  void rendezvous(unsigned mask, WarpOperation operation, void* slot, Site site, bool orders);
  // Lets the other lanes of the warp catch up.
  void yield();
  // The current thread waits until somebody wakes it.
  void sleep();
  void wake(int thread) { ready_.push_back(thread); }
  [[noreturn]] void fail(const std::string& reason, Site site, int thread);
  // The same from inside code that no exception may pass through; the message is whole.
  [[noreturn]] void give_up(const std::string& message);

  int current() const { return current_; }
  int thread_count() const { return count_; }
  bool finished(int thread) const { return thread < unstarted_ && threads_[thread].finished; }
  ThreadCopies& current_copies() { return copies_[current_]; }
  char* shared_memory() { return shared_.get(); }
  bool on_this_stack(uintptr_t address) const { return running_->holds(address); }
  bool on_a_stack(uintptr_t address) const;
  std::string name(int thread) const;
  // What to say of a fault at this address; empty where it is no thread's stack that came to its end.
  std::string stack_overflow(uintptr_t address) const;
  // "kernel block thread", and "file:line: kernel block thread: reason"
  std::string who(int thread) const;
  std::string describe(const std::string& location, const std::string& reason, int thread) const;
  Observer* observer() { return observer_.get(); }
  Hopper& hopper() { return hopper_; }
  uint64_t barriers = 0;

 private:
  static constexpr int kNobody = -1, kStart = -2;
  static void fiber_main(boost::context::detail::transfer_t from);
  void jump(Fiber* to);
  void wait();           // suspends the current thread until somebody makes it ready
  void run_next_here();  // on a fiber: starts threads while there are any, else leaves the fiber idle
  void start_thread();
  void finish_thread();
  int next_thread();  // who goes on: a thread, kStart for one that has not begun, or kNobody
  int next_of_round();
  Fiber* idle_fiber();
  void poison_shared_memory(const Launch& launch);
  std::string deadlock_report() const;

  const SignalStack signal_stack_;
  const ThreadLocals thread_locals_ = thread_locals();
  const Work* work_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<ThreadCopies> copies_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber host_{0};  // stands for the host thread's own stack
  Fiber* running_ = &host_;
  // Who can go on, the next one last: lanes whose meeting is over go in front of other warps. So a warp runs as far
  // ahead as it can, and what a missing barrier lets it read shows.
  std::vector<int> ready_;
  std::vector<int> paused_;  // lanes of one warp that have yielded and go on when all of it has
  int count_ = 0, unstarted_ = 0, finished_ = 0, current_ = 0;
  uint3 next_index_{0, 0, 0};

  int arrived_ = 0, vote_ = 0, vote_result_ = 0, first_arrival_ = 0;
  Site barrier_site_{"", 0};
  std::vector<std::vector<WarpMeeting>> meetings_;  // per warp

  Hopper hopper_{*this};
  std::string error_;
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> shared_{static_cast<char*>(std::aligned_alloc(1024, kSharedCapacity))};
  std::unique_ptr<Observer> observer_{simt::observer() ? simt::observer()() : nullptr};
};

// The one whose block runs on this host thread; null outside of kernels.
BlockRunner* active_block();

}  // namespace simt
