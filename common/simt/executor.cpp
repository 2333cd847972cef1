#include "common/simt/executor.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <boost/context/detail/fcontext.hpp>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <thread>

#include "common/error.hpp"

namespace simt {
namespace {

namespace ctx = boost::context::detail;

constexpr size_t kStackBytes = 64 * 1024, kGuardBytes = 4096;
constexpr int kWarp = 32;

// A stack on which CUDA threads run. It serves one after another until one of them has to wait.
struct Fiber {
  ctx::fcontext_t context = nullptr;
  char* memory = nullptr;
  Fiber() {
    void* p = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw EnvironmentError("executor: no memory for the stacks of a block's threads");
    memory = static_cast<char*>(p);
    mprotect(memory, kGuardBytes, PROT_NONE);
  }
  ~Fiber() { munmap(memory, kGuardBytes + kStackBytes); }
  Fiber(const Fiber&) = delete;
  char* top() const { return memory + kGuardBytes + kStackBytes; }
};

struct AsyncCopy {
  void* to;
  const void* from;
  int bytes, valid_bytes;
};

struct Thread {
  uint3 index;
  Fiber* fiber = nullptr;
  bool finished = false;
  std::vector<AsyncCopy> copies;   // issued, not yet visible
  std::vector<size_t> group_ends;  // copies.size() at each commit
};

// Lanes that wait for each other at one warp-wide operation.
struct WarpMeeting {
  unsigned mask, arrived;
  WarpOperation operation;
  Site site;
  void* slots[kWarp];
};

std::string kernel_name(const void* kernel) {
  Dl_info info;
  if (!dladdr(kernel, &info) || !info.dli_sname) return "kernel";
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), free);
  std::string name = status == 0 ? text.get() : info.dli_sname;
  if (name.rfind("void ", 0) == 0) name.erase(0, 5);
  return name.substr(0, name.find('('));
}

// Runs the blocks that one host thread is given.
class BlockRunner {
 public:
  void run(const Work& work, uint3 block_index, dim3 grid, dim3 block, size_t shared_bytes);

  int barrier(Site site, int vote);
  void rendezvous(unsigned mask, WarpOperation operation, void* slot, Site site);
  [[noreturn]] void fail(const std::string& reason, Site site, int thread);
  int current() const { return current_; }
  Thread& current_thread() { return threads_[current_]; }
  void* shared_memory() { return shared_.get(); }
  uint64_t barriers = 0;

 private:
  static void fiber_main(ctx::transfer_t from);
  void jump(Fiber* to);
  void wait();           // suspends the current thread until somebody makes it ready
  void run_next_here();  // on a fiber: starts threads while there are any, else leaves the fiber idle
  void start_thread();
  void finish_thread();
  Fiber* idle_fiber();
  int next_ready() {
    const int thread = ready_.back();
    ready_.pop_back();
    return thread;
  }
  std::string name(int thread) const;
  std::string deadlock_report() const;

  const Work* work_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber host_;  // stands for the host thread's own stack
  Fiber* running_ = &host_;
  // Who can go on, the next one last: lanes whose meeting is over go in front of other warps. So a warp runs as far
  // ahead as it can, and what a missing barrier lets it read shows.
  std::vector<int> ready_;
  int count_ = 0, unstarted_ = 0, finished_ = 0, current_ = 0;
  uint3 next_index_{0, 0, 0};

  int arrived_ = 0, vote_ = 0, vote_result_ = 0, first_arrival_ = 0;
  Site barrier_site_{"", 0};
  std::vector<std::vector<WarpMeeting>> meetings_;  // per warp

  std::string error_;
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> shared_{static_cast<char*>(std::aligned_alloc(1024, 228 * 1024))};
};

thread_local BlockRunner* active = nullptr;

void BlockRunner::run(const Work& work, uint3 block_index, dim3 grid, dim3 block, size_t shared_bytes) {
  work_ = &work;
  count_ = static_cast<int>(block.x * block.y * block.z);
  if (static_cast<int>(threads_.size()) < count_) threads_.resize(count_);
  meetings_.resize((count_ + kWarp - 1) / kWarp);
  for (auto& warp : meetings_) warp.clear();
  ready_.clear();
  unstarted_ = finished_ = arrived_ = vote_ = 0;
  next_index_ = {0, 0, 0};
  error_.clear();
  std::memset(shared_.get(), 0xff, shared_bytes);  // NaN, so that a read before a write shows

  ::blockIdx = block_index;
  ::blockDim = block;
  ::gridDim = grid;
  active = this;
  idle_.clear();
  for (auto& fiber : fibers_) {
    fiber->context = nullptr;
    idle_.push_back(fiber.get());
  }
  jump(idle_fiber());
  active = nullptr;
  if (error_.empty() && finished_ < count_) error_ = deadlock_report();
  if (!error_.empty()) throw KernelError(error_);
}

Fiber* BlockRunner::idle_fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>());
    idle_.push_back(fibers_.back().get());
  }
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  if (!fiber->context) fiber->context = ctx::make_fcontext(fiber->top(), kStackBytes, fiber_main);
  return fiber;
}

// Leaves the running fiber and returns when somebody jumps back to it.
void BlockRunner::jump(Fiber* to) {
  Fiber* self = running_;
  running_ = to;
  const ctx::transfer_t back = ctx::jump_fcontext(to->context, self);
  static_cast<Fiber*>(back.data)->context = back.fctx;
}

void BlockRunner::fiber_main(ctx::transfer_t from) {
  static_cast<Fiber*>(from.data)->context = from.fctx;
  BlockRunner* runner = active;
  for (;;) {
    try {
      for (;;) runner->run_next_here();
    } catch (const KernelError& error) {
      runner->error_ = error.what();
    } catch (const std::exception& error) {
      runner->error_ = fmt::format("{}: {}", runner->name(runner->current_), error.what());
    }
    runner->jump(&runner->host_);  // the block is given up; its other fibers are never resumed
  }
}

void BlockRunner::run_next_here() {
  if (ready_.empty() && unstarted_ < count_) {
    start_thread();
    work_->invoke(work_->closure);
    finish_thread();
    return;
  }
  Fiber* next = &host_;
  if (!ready_.empty()) {
    current_ = next_ready();
    next = threads_[current_].fiber;
  }
  idle_.push_back(running_);
  jump(next);
}

void BlockRunner::start_thread() {
  current_ = unstarted_++;
  Thread& thread = threads_[current_];
  thread.index = next_index_;
  thread.finished = false;
  thread.fiber = running_;
  if (!thread.group_ends.empty() || !thread.copies.empty()) {
    thread.copies.clear();
    thread.group_ends.clear();
  }
  ::threadIdx = next_index_;
  if (++next_index_.x == ::blockDim.x) {
    next_index_.x = 0;
    if (++next_index_.y == ::blockDim.y) {
      next_index_.y = 0;
      ++next_index_.z;
    }
  }
}

void BlockRunner::finish_thread() {
  threads_[current_].finished = true;
  ++finished_;
  if (arrived_ > 0)
    fail(
        fmt::format("__syncthreads is waited for by {}, but {} has returned: a barrier must be reached by every thread",
                    name(first_arrival_), name(current_)),
        barrier_site_, first_arrival_);
  for (const WarpMeeting& meeting : meetings_[current_ / kWarp])
    if (meeting.mask >> (current_ % kWarp) & 1)
      fail(fmt::format("mask {:#010x} names lane {}, which has returned", meeting.mask, current_ % kWarp), meeting.site,
           current_);
}

void BlockRunner::wait() {
  const int self = current_;
  threads_[self].fiber = running_;
  if (!ready_.empty()) {
    current_ = next_ready();
    jump(threads_[current_].fiber);
  } else if (unstarted_ < count_) {
    jump(idle_fiber());
  } else {
    jump(&host_);  // nobody can go on: a deadlock
  }
  current_ = self;
  ::threadIdx = threads_[self].index;
}

int BlockRunner::barrier(Site site, int vote) {
  if (arrived_ == 0) {
    barrier_site_ = site;
    first_arrival_ = current_;
    if (finished_ > 0) {
      int gone = 0;
      while (!threads_[gone].finished) ++gone;
      fail(fmt::format(
               "__syncthreads is waited for by {}, but {} has returned: a barrier must be reached by every thread",
               name(current_), name(gone)),
           site, current_);
    }
  } else if (!(site == barrier_site_)) {
    fail(fmt::format("divergent barrier: {} waits at {}:{} while {} waits here", name(first_arrival_),
                     barrier_site_.file, barrier_site_.line, name(current_)),
         site, current_);
  }
  vote_ += vote;
  if (++arrived_ < count_) {
    wait();
    return vote_result_;
  }
  ++barriers;
  vote_result_ = vote_;
  arrived_ = vote_ = 0;
  for (int i = count_ - 1; i >= 0; --i)
    if (i != current_) ready_.push_back(i);
  return vote_result_;
}

void BlockRunner::rendezvous(unsigned mask, WarpOperation operation, void* slot, Site site) {
  const int warp = current_ / kWarp, lane = current_ % kWarp, first = warp * kWarp;
  auto& waiting = meetings_[warp];
  auto meeting = std::find_if(waiting.begin(), waiting.end(), [&](const WarpMeeting& m) {
    return m.mask == mask && m.operation == operation && m.site == site;
  });
  if (meeting == waiting.end()) {
    if (!(mask >> lane & 1))
      fail(fmt::format("mask {:#010x} does not name the calling lane {}", mask, lane), site, current_);
    for (int i = 0; i < kWarp; ++i) {
      if (!(mask >> i & 1)) continue;
      if (first + i >= count_)
        fail(fmt::format("mask {:#010x} names lane {}, but this warp has only {} threads", mask, i, count_ - first),
             site, current_);
      if (first + i < unstarted_ && threads_[first + i].finished)
        fail(fmt::format("mask {:#010x} names lane {}, which has returned", mask, i), site, current_);
    }
    waiting.push_back({mask, 0, operation, site, {}});
    meeting = waiting.end() - 1;
  }
  meeting->slots[lane] = slot;
  meeting->arrived |= 1u << lane;
  if (meeting->arrived != mask) {
    wait();
    return;
  }
  operation(meeting->slots, mask);
  *meeting = waiting.back();
  waiting.pop_back();
  for (int i = kWarp - 1; i >= 0; --i)
    if ((mask >> i & 1) && i != lane) ready_.push_back(first + i);
}

std::string BlockRunner::name(int thread) const {
  const uint3 t = threads_[thread].index;
  return fmt::format("thread ({},{},{})", t.x, t.y, t.z);
}

void BlockRunner::fail(const std::string& reason, Site site, int thread) {
  throw KernelError(fmt::format("{}:{}: {} block ({},{},{}) {}: {}", site.file, site.line, kernel_name(work_->kernel),
                                ::blockIdx.x, ::blockIdx.y, ::blockIdx.z, name(thread), reason));
}

std::string BlockRunner::deadlock_report() const {
  std::string text =
      fmt::format("deadlock in {} block ({},{},{}): {} of {} threads cannot go on", kernel_name(work_->kernel),
                  ::blockIdx.x, ::blockIdx.y, ::blockIdx.z, count_ - finished_, count_);
  if (arrived_ > 0)
    text += fmt::format("; {} wait at the barrier {}:{}, the first is {}", arrived_, barrier_site_.file,
                        barrier_site_.line, name(first_arrival_));
  for (size_t warp = 0; warp < meetings_.size(); ++warp)
    for (const WarpMeeting& m : meetings_[warp])
      text += fmt::format("; warp {}: lanes {:#010x} of mask {:#010x} wait at {}:{}", warp, m.arrived, m.mask,
                          m.site.file, m.site.line);
  return text;
}

// The pool -----------------------------------------------------------------------------------------------------------

std::atomic<uint64_t> order_seed{0};
std::atomic<bool> early_copies{[] {
  const char* text = std::getenv("SIMT_COPIES");
  return text && std::strcmp(text, "early") == 0;
}()};

void carry_out(const AsyncCopy& copy) {
  if (copy.valid_bytes > 0) std::memcpy(copy.to, copy.from, copy.valid_bytes);
  std::memset(static_cast<char*>(copy.to) + copy.valid_bytes, 0, copy.bytes - copy.valid_bytes);
}
std::atomic<uint64_t> total_launches{0}, total_blocks{0}, total_barriers{0};

// One grid on its way: workers take block numbers until none is left or one has failed.
struct Grid {
  Work work;
  dim3 grid, block;
  size_t shared_bytes;
  uint64_t blocks;
  std::vector<uint32_t> order;  // empty: ascending
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;

  void take_blocks() {
    thread_local BlockRunner runner;
    for (;;) {
      uint64_t i = next.fetch_add(1);
      if (i >= blocks) break;
      if (!order.empty()) i = order[i];
      const uint3 index{static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                        static_cast<unsigned>(i / grid.x / grid.y)};
      try {
        runner.run(work, index, grid, block, shared_bytes);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex);
        if (!error) error = std::current_exception();
        next = blocks;
      }
    }
    total_barriers += runner.barriers;
    runner.barriers = 0;
  }
};

class Pool {
 public:
  explicit Pool(int helpers) {
    for (int i = 0; i < helpers; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~Pool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
  void run(Grid& grid) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      grid_ = &grid;
      ++generation_;
      busy_ = static_cast<int>(threads_.size());
    }
    wake_.notify_all();
    grid.take_blocks();
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void serve() {
    uint64_t seen = 0;
    for (;;) {
      Grid* grid;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
        if (stop_) return;
        seen = generation_;
        grid = grid_;
      }
      grid->take_blocks();
      std::lock_guard<std::mutex> lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Grid* grid_ = nullptr;
  uint64_t generation_ = 0;
  int busy_ = 0;
  bool stop_ = false;
};

void check_launch(dim3 grid, dim3 block, size_t shared_bytes, const void* kernel) {
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64)
    throw EnvironmentError(fmt::format("{}: a block of {}×{}×{} threads: a GPU takes 1 to 1024 (z at most 64)",
                                       kernel_name(kernel), block.x, block.y, block.z));
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    throw EnvironmentError(fmt::format("{}: a grid of {}×{}×{} blocks: a GPU takes 1 to 2^31-1 × 65535 × 65535",
                                       kernel_name(kernel), grid.x, grid.y, grid.z));
  if (shared_bytes > kMaxSharedBytes)
    throw EnvironmentError(fmt::format("{}: {} bytes of dynamic shared memory: the largest GPU gives {}",
                                       kernel_name(kernel), shared_bytes, kMaxSharedBytes));
}

}  // namespace

int worker_count() {
  static const int count = [] {
    const char* text = std::getenv("SIMT_THREADS");
    const int wanted = text ? std::atoi(text) : static_cast<int>(std::thread::hardware_concurrency());
    return std::max(1, std::min(wanted, 64));
  }();
  return count;
}

void set_block_order(uint64_t seed) { order_seed = seed; }
void set_early_copies(bool early) { early_copies = early; }

Counters counters() { return {total_launches, total_blocks, total_barriers}; }

void run_grid(const Work& work, dim3 grid, dim3 block, size_t dynamic_shared_bytes) {
  if (active) active->fail("a kernel launches a kernel", {__FILE__, __LINE__}, active->current());
  check_launch(grid, block, dynamic_shared_bytes, work.kernel);
  Grid job{};
  job.work = work;
  job.grid = grid;
  job.block = block;
  job.shared_bytes = dynamic_shared_bytes;
  job.blocks = uint64_t(grid.x) * grid.y * grid.z;
  if (order_seed != 0 && job.blocks <= 0xffffffffu) {
    job.order.resize(job.blocks);
    for (uint64_t i = 0; i < job.blocks; ++i) job.order[i] = static_cast<uint32_t>(i);
    std::shuffle(job.order.begin(), job.order.end(), std::mt19937_64(order_seed));
  }
  ++total_launches;
  total_blocks += job.blocks;
  static std::mutex one_grid_at_a_time;
  std::lock_guard<std::mutex> lock(one_grid_at_a_time);
  if (job.blocks == 1 || worker_count() == 1) {
    job.take_blocks();
  } else {
    static Pool pool(worker_count() - 1);
    pool.run(job);
  }
  if (job.error) std::rethrow_exception(job.error);
}

int block_barrier(Site site, int vote) { return active->barrier(site, vote); }

void warp_rendezvous(unsigned mask, WarpOperation operation, void* slot, Site site) {
  active->rendezvous(mask, operation, slot, site);
}

int lane_id() { return active->current() % kWarp; }

void* dynamic_shared_memory() { return active->shared_memory(); }

void async_copy(void* to, const void* from, int bytes, int valid_bytes, Site site) {
  const uintptr_t read = valid_bytes > 0 ? reinterpret_cast<uintptr_t>(from) : 0;
  if ((reinterpret_cast<uintptr_t>(to) | read) % static_cast<unsigned>(bytes) != 0)
    active->fail(fmt::format("cp.async: an address is not a multiple of {} bytes", bytes), site, active->current());
  if (early_copies)
    carry_out({to, from, bytes, valid_bytes});
  else
    active->current_thread().copies.push_back({to, from, bytes, valid_bytes});
}

void async_commit() {
  Thread& thread = active->current_thread();
  thread.group_ends.push_back(thread.copies.size());
}

void async_wait(int groups_left) {
  Thread& thread = active->current_thread();
  const int groups = static_cast<int>(thread.group_ends.size()) - groups_left;
  if (groups <= 0) return;
  const size_t end = thread.group_ends[groups - 1];
  for (size_t i = 0; i < end; ++i) carry_out(thread.copies[i]);
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + end);
  thread.group_ends.erase(thread.group_ends.begin(), thread.group_ends.begin() + groups);
  for (size_t& group_end : thread.group_ends) group_end -= end;
}

void fail(const char* reason, Site site) { active->fail(reason, site, active->current()); }

}  // namespace simt
