#include "common/simt/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include "common/error.hpp"
#include "common/simt/block_runner.hpp"
#include "common/simt/counts_total.hpp"
#include "common/simt/worker_pool.hpp"

namespace simt {
namespace {

struct Grid;
thread_local BlockRunner* active = nullptr;  // whose block runs on this host thread
thread_local Grid* active_grid = nullptr;    // and of which grid it is
thread_local bool was_last = false;          // that block has been told that it is the last one which runs
std::atomic<uint64_t> order_seed{0};
std::atomic<uint64_t> total_launches{0}, total_blocks{0}, total_barriers{0};
MakeObserver make_observer = nullptr;
std::string absent_file;
std::atomic<int> absent_line{0};

bool absent(Site site) { return site.line == absent_line && absent_file == site.file; }

// One grid on its way: workers take block numbers until none is left or one has failed.
struct Grid {
  Launch launch;
  uint64_t blocks;
  std::vector<uint32_t> order;  // empty: ascending
  std::atomic<uint64_t> next{0};
  bool shared_out = false;      // other host threads take blocks too
  std::atomic<int> running{0};  // host threads with a block, or about to take one
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr error;

  // No other block runs, and none will as long as this one does.
  bool last_one() const { return running == 1 && (!shared_out || next >= blocks); }

  void take_blocks() {
    thread_local BlockRunner runner;
    const dim3& grid = launch.grid;
    active_grid = this;
    for (;;) {
      ++running;  // before a block is taken, so that no block is neither waiting nor running
      uint64_t i = next.fetch_add(1);
      if (i >= blocks) break;
      was_last = false;
      if (!order.empty()) i = order[i];
      const uint3 index{static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                        static_cast<unsigned>(i / grid.x / grid.y)};
      active = &runner;
      try {
        runner.run(launch, index);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex);
        if (!error) error = std::current_exception();
        failed = true;
        next = blocks;
      }
      active = nullptr;
      --running;
    }
    --running;
    if (runner.observer()) runner.observer()->kernel_ends();
    total_barriers += runner.barriers;
    runner.barriers = 0;
  }
};

size_t explain_stack_overflow(uintptr_t address, char* text, size_t capacity) {
  if (!active) return 0;
  const std::string message = active->stack_overflow(address);
  return message.copy(text, capacity);
}

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

BlockRunner* active_block() { return active; }

int worker_count() {
  static const int count = [] {
    const char* text = std::getenv("SIMT_THREADS");
    const int wanted = text ? std::atoi(text) : static_cast<int>(std::thread::hardware_concurrency());
    return std::max(1, std::min(wanted, 64));
  }();
  return count;
}

void set_block_order(uint64_t seed) { order_seed = seed; }

Counters counters() { return {total_launches, total_blocks, total_barriers}; }

void run_grid(const Work& work, dim3 grid, dim3 block, size_t dynamic_shared_bytes) {
  const Unheard unheard;
  if (active) active->fail("a kernel launches a kernel", {__FILE__, __LINE__}, active->current());
  check_launch(grid, block, dynamic_shared_bytes, work.kernel);
  Grid job{};
  job.blocks = uint64_t(grid.x) * grid.y * grid.z;
  if (order_seed != 0 && job.blocks <= 0xffffffffu) {
    job.order.resize(job.blocks);
    for (uint64_t i = 0; i < job.blocks; ++i) job.order[i] = static_cast<uint32_t>(i);
    std::shuffle(job.order.begin(), job.order.end(), std::mt19937_64(order_seed));
  }
  ++total_launches;
  static std::mutex one_grid_at_a_time;
  std::lock_guard<std::mutex> lock(one_grid_at_a_time);
  explain_faults(explain_stack_overflow);
  job.launch = {
      work, grid, block, dynamic_shared_bytes, static_cast<uint32_t>(1 + total_blocks), static_shared(work.kernel)};
  total_blocks += job.blocks;
  if (make_observer) count_launch(work.kernel, job.blocks, uint64_t(block.x) * block.y * block.z);
  if (job.blocks == 1 || worker_count() == 1) {
    job.take_blocks();
  } else {
    job.shared_out = true;
    static WorkerPool pool(worker_count() - 1);
    pool.run([&] { job.take_blocks(); });
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

void pause(Site site) {
  const Unheard unheard;
  if (active_grid->failed)
    active->fail("stopped while it waited, for another block has failed", site, active->current());
  // Once is not enough: what it waits for may have come after it looked.
  const bool last = active_grid->last_one();
  if (last && was_last) active->fail("waits for another block, and none is left that runs", site, active->current());
  was_last = last;
  std::this_thread::yield();
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

void fail(const char* reason, Site site) {
  const Unheard unheard;
  active->fail(reason, site, active->current());
}

}  // namespace simt
