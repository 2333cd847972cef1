// Runs the blocks that one host thread is given: the fibers, and what happens where they meet.
#pragma once
#include <boost/context/detail/fcontext.hpp>
#include <memory>
#include <string>
#include <vector>

#include "common/simt/hopper.hpp"
#include "common/simt/observer.hpp"

namespace simt {

constexpr int kWarp = 32;
constexpr size_t kSharedCapacity = 228 * 1024;
constexpr size_t kStackBytes = 64 * 1024, kGuardBytes = 4096;

// A stack on which CUDA threads run. It serves one after another until one of them has to wait.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  char* memory = nullptr;
  size_t shift;
  explicit Fiber(size_t number);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  // Stacks that all began at the start of a page would meet in the same few sets of the host's cache.
  char* top() const { return memory + kGuardBytes + kStackBytes - shift; }
  bool holds(uintptr_t address) const {
    return address - reinterpret_cast<uintptr_t>(memory) < kGuardBytes + kStackBytes;
  }
};

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

// "gemm_tiled<32>", from the kernel's address.
std::string kernel_name(const void* kernel);
void carry_out(const AsyncCopy& copy);

class BlockRunner {
 public:
  void run(const Work& work, uint3 block_index, dim3 grid, dim3 block, size_t shared_bytes, uint32_t first_block);

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
  // "file:line: kernel block thread: reason"
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
  std::string deadlock_report() const;

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

// Whose block runs on this host thread.
BlockRunner& active_runner();

}  // namespace simt
