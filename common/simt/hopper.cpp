#include "common/simt/hopper.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/simt/block_runner.hpp"

namespace simt {
void Hopper::block_begins(int threads, size_t shared_bytes) {
  threads_ = threads;
  shared_bytes_ = shared_bytes;
  loads_.clear();
  stores_.assign(static_cast<size_t>(threads), {});
  waiters_.clear();
  named_.assign(named_.size(), {});
  warpgroups_.clear();
  unfenced_init_ = false;
}

std::string Hopper::described(Site site, const char* reason, int thread) const {
  return runner_.describe(fmt::format("{}:{}", site.file, site.line), reason, thread);
}

void Hopper::thread_ends(int thread) {
  for (const auto& warpgroup : warpgroups_)
    if (warpgroup) warpgroup->thread_ends(thread);
  for (Store& store : stores_[static_cast<size_t>(thread)].stores) {
    if (store.held.empty())
      throw KernelError(described(
          store.site, "the kernel ends while tma_store reads shared memory: tma_store_commit and a wait are missing",
          thread));
    store_box(store.map, store.at, store.held.data(), 0);
  }
}

std::string Hopper::block_ends() {
  if (!loads_.empty())
    return described(loads_[0].site, "the kernel ends while this tma_load is under way: nobody waited for it",
                     loads_[0].thread);
  for (size_t i = 0; i < warpgroups_.size(); ++i)
    if (const Site* site = warpgroups_[i] ? warpgroups_[i]->unfinished() : nullptr)
      return described(*site, "the kernel ends while this wgmma is under way: wgmma_wait is missing",
                       static_cast<int>(i) * Warpgroup::kThreads);
  return "";
}

std::string Hopper::waiting() const {
  std::string text;
  for (size_t i = 0; i < waiters_.size(); ++i) {
    const Waiter& w = waiters_[i];
    const auto same = [&](const Waiter& o) { return o.barrier == w.barrier && o.site == w.site; };
    if (std::find_if(waiters_.begin(), waiters_.begin() + static_cast<long>(i), same) - waiters_.begin() <
        static_cast<long>(i))
      continue;
    const Mbarrier state = state_of(w.barrier);
    text += fmt::format(
        "; {} wait at {}:{} for phase parity {} of the mbarrier at byte {}, the first is {}: it wants {} of {} "
        "arrivals "
        "and {} bytes",
        std::count_if(waiters_.begin(), waiters_.end(), same), w.site.file, w.site.line, w.parity, w.barrier,
        runner_.name(w.thread), unsigned(state.pending), unsigned(state.expected), int64_t(state.bytes));
  }
  for (size_t id = 0; id < named_.size(); ++id)
    if (named_[id].arrived > 0)
      text += fmt::format("; {} of {} threads have come to named barrier {} at {}:{}", named_[id].arrived,
                          named_[id].expected, id, named_[id].site.file, named_[id].site.line);
  for (const auto& warpgroup : warpgroups_)
    if (warpgroup) text += warpgroup->waiting();
  return text;
}

uint32_t Hopper::shared_address(const void* pointer, uint32_t alignment, const char* what, Site site) const {
  const auto offset = reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(runner_.shared_memory());
  if (offset >= shared_bytes_)
    runner_.fail(fmt::format("{} does not lie in the block's dynamic shared memory", what), site, runner_.current());
  if (offset % alignment != 0)
    runner_.fail(
        fmt::format("{} lies at byte {} of shared memory, which is no multiple of {}", what, offset, alignment), site,
        runner_.current());
  return static_cast<uint32_t>(offset);
}

// mbarriers ---------------------------------------------------------------------------------------------------------

void Hopper::init(uint32_t barrier, int arrivals, Site site) {
  if (arrivals < 1 || arrivals >= 1 << 20)
    runner_.fail(fmt::format("mbarrier_init with {} arrivals; wanted 1 to 2^20 - 1", arrivals), site,
                 runner_.current());
  const Mbarrier state{0, unsigned(arrivals), unsigned(arrivals), 0};
  std::memcpy(runner_.shared_memory() + barrier, &state, sizeof state);
  unfenced_init_ = true;
}

Hopper::Mbarrier Hopper::state_of(uint32_t barrier) const {
  Mbarrier state;
  std::memcpy(&state, runner_.shared_memory() + barrier, sizeof state);
  return state;
}

Hopper::Mbarrier Hopper::checked(uint32_t barrier, Site site) const {
  const Mbarrier state = state_of(barrier);
  if (state.expected == 0xfffff && state.bytes == -1)  // what shared memory starts as
    runner_.fail(fmt::format("the mbarrier at byte {} has not been initialised", barrier), site, runner_.current());
  return state;
}

// Counts arrivals and bytes of the phase under way; where it wants no more, the next one begins.
void Hopper::advance(uint32_t barrier, int arrivals, int64_t bytes, Site site) {
  Mbarrier state = checked(barrier, site);
  if (arrivals > int(state.pending))
    runner_.fail(
        fmt::format("the mbarrier at byte {} has had its {} arrivals of this phase", barrier, unsigned(state.expected)),
        site, runner_.current());
  state.pending = (unsigned(state.pending) - unsigned(arrivals)) & 0xfffffu;
  state.bytes += bytes;
  const bool complete = state.pending == 0 && state.bytes == 0;
  if (complete) {
    state.phase ^= 1;
    state.pending = state.expected;
  }
  std::memcpy(runner_.shared_memory() + barrier, &state, sizeof state);
  if (complete) wake_waiters(barrier);
}

// Who waits for this arrival goes on at once, before the thread that arrives: what it does too early shows.
void Hopper::arrive(uint32_t barrier, int64_t expected_bytes, Site site) {
  runner_.wake(runner_.current());
  advance(barrier, 1, expected_bytes, site);
  runner_.sleep();
}

void Hopper::wait(uint32_t barrier, unsigned parity, Site site) {
  const auto passed = [&] { return checked(barrier, site).phase != parity; };
  while (!passed()) {
    land(barrier);
    if (passed()) return;
    waiters_.push_back({barrier, parity, runner_.current(), site});
    runner_.sleep();
  }
}

void Hopper::wake_waiters(uint32_t barrier) {
  for (size_t i = waiters_.size(); i-- > 0;)  // the one that goes on next is woken last
    if (waiters_[i].barrier == barrier) runner_.wake(waiters_[i].thread);
  waiters_.erase(
      std::remove_if(waiters_.begin(), waiters_.end(), [&](const Waiter& waiter) { return waiter.barrier == barrier; }),
      waiters_.end());
}

// Bulk copies -------------------------------------------------------------------------------------------------------

// An H200 answers with cudaErrorIllegalInstruction (715).
void Hopper::check_first_coordinate(const TensorMap& map, int at, Site site) const {
  const int64_t bytes = at * static_cast<int64_t>(map.strides[0]);
  if (bytes % 16 != 0)
    runner_.fail(
        fmt::format("a tensor copy at {} bytes of a row (first coordinate {}): wanted a multiple of 16", bytes, at),
        site, runner_.current());
}

void Hopper::load(const TensorMap& map, const int (&at)[4], uint32_t to, uint32_t barrier, Site site) {
  if (unfenced_init_)
    runner_.fail("tma_load before mbarrier_init_fence: the copy engine may not see the mbarrier", site,
                 runner_.current());
  checked(barrier, site);
  if (to + map.box_bytes() > shared_bytes_)
    runner_.fail(
        fmt::format("tma_load of {} bytes to byte {} of {} bytes of shared memory", map.box_bytes(), to, shared_bytes_),
        site, runner_.current());
  for (const auto& warpgroup : warpgroups_)
    if (const Site* reader = warpgroup ? warpgroup->reading(to, to + map.box_bytes()) : nullptr)
      runner_.fail(
          fmt::format("tma_load to byte {} of shared memory, which the wgmma at {}:{} reads; a warp of it has not "
                      "come to its wgmma_wait",
                      to, reader->file, reader->line),
          site, runner_.current());
  loads_.push_back({map, {at[0], at[1], at[2], at[3]}, to, barrier, site, runner_.current()});
  if (copies_are_early())
    land(barrier);
  else
    wake_waiters(barrier);  // they look again, and the copy lands
}

// Lets the copies happen that complete on this mbarrier.
void Hopper::land(uint32_t barrier) {
  for (size_t i = 0; i < loads_.size();) {
    if (loads_[i].barrier != barrier) {
      ++i;
      continue;
    }
    const Load load = loads_[i];
    loads_.erase(loads_.begin() + static_cast<long>(i));
    load_box(load.map, load.at, runner_.shared_memory(), load.to);
    advance(barrier, 0, -int64_t(load.map.box_bytes()), load.site);
  }
}

void Hopper::store(const TensorMap& map, const int (&at)[4], uint32_t from, Site site) {
  Store store{map, {at[0], at[1], at[2], at[3]}, from, site, {}};
  if (copies_are_early()) read_source(store);
  stores_[static_cast<size_t>(runner_.current())].stores.push_back(std::move(store));
}

// The box, as it lies in shared memory now, at the start of `held`.
void Hopper::read_source(Store& store) {
  const char* source = runner_.shared_memory() + store.from;
  store.held.assign(source, source + store.map.box_bytes());
}

void Hopper::commit_stores() {
  ThreadStores& thread = stores_[static_cast<size_t>(runner_.current())];
  thread.group_ends.push_back(thread.stores.size());
}

void Hopper::wait_stores(int groups_left, bool of_reading) {
  ThreadStores& thread = stores_[static_cast<size_t>(runner_.current())];
  const int groups = static_cast<int>(thread.group_ends.size()) - groups_left;
  if (groups <= 0) return;
  const size_t end = thread.group_ends[static_cast<size_t>(groups - 1)];
  for (size_t i = 0; i < end; ++i) {
    if (thread.stores[i].held.empty()) read_source(thread.stores[i]);
    if (!of_reading) store_box(thread.stores[i].map, thread.stores[i].at, thread.stores[i].held.data(), 0);
  }
  if (of_reading) return;
  thread.stores.erase(thread.stores.begin(), thread.stores.begin() + static_cast<long>(end));
  thread.group_ends.erase(thread.group_ends.begin(), thread.group_ends.begin() + groups);
  for (size_t& group_end : thread.group_ends) group_end -= end;
}

// Named barriers and warpgroups -------------------------------------------------------------------------------------

void Hopper::named_barrier(int id, int threads, bool waits, Site site) {
  if (id < 1 || id > 15 || threads < kWarp || threads % kWarp != 0 || threads > threads_)
    runner_.fail(
        fmt::format("named barrier {} of {} threads: wanted 1 to 15 and whole warps of this block", id, threads), site,
        runner_.current());
  NamedBarrier& barrier = named_[static_cast<size_t>(id)];
  if (barrier.arrived > 0 && barrier.expected != threads)
    runner_.fail(
        fmt::format("named barrier {} is waited at for {} threads and here for {}", id, barrier.expected, threads),
        site, runner_.current());
  barrier.expected = threads;
  barrier.site = site;
  if (waits) barrier.sleepers.push_back(runner_.current());
  if (++barrier.arrived < threads) {
    if (waits) runner_.sleep();
    return;
  }
  if (waits) barrier.sleepers.pop_back();
  for (size_t i = barrier.sleepers.size(); i-- > 0;) runner_.wake(barrier.sleepers[i]);
  barrier = {};
}

Warpgroup& Hopper::warpgroup(Site site) {
  const int index = runner_.current() / Warpgroup::kThreads, first = index * Warpgroup::kThreads;
  if (first + Warpgroup::kThreads > threads_)
    runner_.fail("wgmma in a warpgroup of fewer than 128 threads", site, runner_.current());
  if (warpgroups_.size() <= static_cast<size_t>(index)) warpgroups_.resize(static_cast<size_t>(index) + 1);
  auto& warpgroup = warpgroups_[static_cast<size_t>(index)];
  if (!warpgroup) warpgroup = std::make_unique<Warpgroup>(runner_, first);
  return *warpgroup;
}

// For the current thread --------------------------------------------------------------------------------------------

namespace {
uint32_t barrier_address(const uint64_t* barrier, Site site) {
  return active_block()->hopper().shared_address(barrier, 8, "an mbarrier", site);
}
uint32_t box_address(const void* shared, const TensorMap& map, const int (&at)[4], Site site) {
  const Hopper& hopper = active_block()->hopper();
  hopper.check_first_coordinate(map, at[0], site);
  return hopper.shared_address(shared, map.swizzled ? 1024 : 128, "the box of a tensor copy", site);
}
}  // namespace

void mbarrier_init(uint64_t* barrier, int arrivals, Site site) {
  const Unheard unheard;
  active_block()->hopper().init(barrier_address(barrier, site), arrivals, site);
}
void mbarrier_init_fence() { active_block()->hopper().init_fence(); }
void mbarrier_arrive(uint64_t* barrier, int64_t expected_bytes, Site site) {
  const Unheard unheard;
  active_block()->hopper().arrive(barrier_address(barrier, site), expected_bytes, site);
}
void mbarrier_wait(uint64_t* barrier, unsigned parity, Site site) {
  const Unheard unheard;
  active_block()->hopper().wait(barrier_address(barrier, site), parity, site);
}
void bulk_load(void* shared, const TensorMap& map, const int (&at)[4], uint64_t* barrier, Site site) {
  const Unheard unheard;
  active_block()->hopper().load(map, at, box_address(shared, map, at, site), barrier_address(barrier, site), site);
}
void bulk_store(const TensorMap& map, const int (&at)[4], const void* shared, Site site) {
  const Unheard unheard;
  active_block()->hopper().store(map, at, box_address(shared, map, at, site), site);
}
void bulk_commit() {
  const Unheard unheard;
  active_block()->hopper().commit_stores();
}
void bulk_wait(int groups_left, bool of_reading) {
  const Unheard unheard;
  active_block()->hopper().wait_stores(groups_left, of_reading);
}
void named_barrier(int id, int threads, bool waits, Site site) {
  const Unheard unheard;
  active_block()->hopper().named_barrier(id, threads, waits, site);
}
uint32_t shared_address(const void* pointer, Site site) {
  const Unheard unheard;
  return active_block()->hopper().shared_address(pointer, 16, "a wgmma operand", site);
}
void wgmma(const WgmmaOperands& operands, Site site) {
  const Unheard unheard;
  active_block()->hopper().warpgroup(site).mma(operands, site);
}
void wgmma_fence(Site site) {
  const Unheard unheard;
  active_block()->hopper().warpgroup(site).fence();
}
void wgmma_commit(Site site) {
  const Unheard unheard;
  active_block()->hopper().warpgroup(site).commit();
}
void wgmma_wait(int groups_left, Site site) {
  const Unheard unheard;
  active_block()->hopper().warpgroup(site).wait(groups_left);
}

}  // namespace simt
