#include "common/simt/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include "common/error.hpp"
#include "common/simt/block_runner.hpp"
#include "common/simt/counts_total.hpp"

namespace simt {
namespace {

thread_local BlockRunner* active = nullptr;  // whose block runs on this host thread
std::atomic<uint64_t> order_seed{0};
std::atomic<bool> early_copies{[] {
  const char* text = std::getenv("SIMT_COPIES");
  return text && std::strcmp(text, "early") == 0;
}()};
std::atomic<uint64_t> total_launches{0}, total_blocks{0}, total_barriers{0};
MakeObserver make_observer = nullptr;
std::string absent_file;
std::atomic<int> absent_line{0};

bool absent(Site site) { return site.line == absent_line && absent_file == site.file; }

// One grid on its way: workers take block numbers until none is left or one has failed.
struct Grid {
  Work work;
  dim3 grid, block;
  size_t shared_bytes;
  uint64_t blocks;
  uint32_t first_block;         // the number of block 0 of this grid in the process
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
      active = &runner;
      try {
        runner.run(work, index, grid, block, shared_bytes, first_block);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex);
        if (!error) error = std::current_exception();
        next = blocks;
      }
      active = nullptr;
    }
    if (runner.observer()) runner.observer()->kernel_ends();
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
bool copies_are_early() { return early_copies; }

Counters counters() { return {total_launches, total_blocks, total_barriers}; }

void run_grid(const Work& work, dim3 grid, dim3 block, size_t dynamic_shared_bytes) {
  const Unheard unheard;
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
  static std::mutex one_grid_at_a_time;
  std::lock_guard<std::mutex> lock(one_grid_at_a_time);
  job.first_block = static_cast<uint32_t>(1 + total_blocks);
  total_blocks += job.blocks;
  if (make_observer) count_launch(work.kernel, job.blocks, uint64_t(block.x) * block.y * block.z);
  if (job.blocks == 1 || worker_count() == 1) {
    job.take_blocks();
  } else {
    static Pool pool(worker_count() - 1);
    pool.run(job);
  }
  if (job.error) std::rethrow_exception(job.error);
}

void set_absent_barrier(const std::string& file, int line) {
  absent_file = file;
  absent_line = line;
}

void syncthreads(Site site) {
  if (absent(site)) return;
  const Unheard unheard;
  active->barrier(site, 0);
}

void syncwarp(unsigned mask, Site site) {
  if (absent(site)) return;
  const Unheard unheard;
  active->rendezvous(
      mask, [](void* const*, unsigned) {}, nullptr, site, true);
}

int block_barrier(Site site, int vote) {
  const Unheard unheard;
  return active->barrier(site, vote);
}

void warp_rendezvous(unsigned mask, WarpOperation operation, void* slot, Site site, bool orders) {
  const Unheard unheard;
  active->rendezvous(mask, operation, slot, site, orders);
}

void set_observer(MakeObserver make) { make_observer = make; }
MakeObserver observer() { return make_observer; }

BlockRunner& active_runner() { return *active; }
int lane_id() { return active->current() % kWarp; }

void thread_fence() {
  const Unheard unheard;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (active->observer()) active->observer()->fence();
}

void* dynamic_shared_memory() { return active->shared_memory(); }

void async_copy(void* to, const void* from, int bytes, int valid_bytes, Site site) {
  const Unheard unheard;
  const uintptr_t read = valid_bytes > 0 ? reinterpret_cast<uintptr_t>(from) : 0;
  if ((reinterpret_cast<uintptr_t>(to) | read) % static_cast<unsigned>(bytes) != 0)
    active->fail(fmt::format("cp.async: an address is not a multiple of {} bytes", bytes), site, active->current());
  AsyncCopy copy{to, from, bytes, valid_bytes, early_copies, site, __builtin_return_address(0)};
  if (active->observer()) active->observer()->copy_begins(copy);
  if (copy.done) carry_out(copy);
  active->current_copies().copies.push_back(copy);
}

void async_commit() {
  const Unheard unheard;
  ThreadCopies& thread = active->current_copies();
  thread.group_ends.push_back(thread.copies.size());
}

void async_wait(int groups_left) {
  const Unheard unheard;
  ThreadCopies& thread = active->current_copies();
  const int groups = static_cast<int>(thread.group_ends.size()) - groups_left;
  if (groups <= 0) return;
  const size_t end = thread.group_ends[groups - 1];
  for (size_t i = 0; i < end; ++i) {
    if (!thread.copies[i].done) carry_out(thread.copies[i]);
    if (active->observer()) active->observer()->copy_ends(thread.copies[i]);
  }
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + end);
  thread.group_ends.erase(thread.group_ends.begin(), thread.group_ends.begin() + groups);
  for (size_t& group_end : thread.group_ends) group_end -= end;
}

void fail(const char* reason, Site site) {
  const Unheard unheard;
  active->fail(reason, site, active->current());
}

}  // namespace simt
