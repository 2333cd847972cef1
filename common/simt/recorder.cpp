#include "common/simt/recorder.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "common/error.hpp"
#include "common/simt/source_lines.hpp"

extern "C" const char __executable_start, _end;  // set by the linker: the program's own constants and tables

namespace simt {

std::atomic_flag cell_locks[1024];

namespace {

size_t cell_bytes(size_t bytes) { return (bytes + 3) / 4 * sizeof(Cell); }
Cell* map_cells(size_t bytes) {
  void* cells =
      mmap(nullptr, cell_bytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (cells == MAP_FAILED) throw EnvironmentError("executor: no memory to watch shared memory with");
  return static_cast<Cell*>(cells);
}

}  // namespace

Recorder::Recorder() {
  static_begin_ = thread_locals_.begin & ~uintptr_t{15};
  static_bytes_ = thread_locals_.begin + thread_locals_.bytes - static_begin_;
  static_cells_ = map_cells(static_bytes_);
  dynamic_cells_ = map_cells(kSharedCapacity);
}
Recorder::~Recorder() {
  munmap(static_cells_, cell_bytes(static_bytes_));
  munmap(dynamic_cells_, cell_bytes(kSharedCapacity));
}

void Recorder::block_begins(BlockRunner& runner, const Work& work, uint32_t first_block, size_t shared_bytes) {
  runner_ = &runner;
  work_ = &work;
  first_block_ = first_block;
  alone_ = worker_count() == 1;
  dynamic_begin_ = reinterpret_cast<uintptr_t>(runner.shared_memory());
  dynamic_bytes_ = shared_bytes;
  if (ranges_version_ != device_memory_version()) {
    ranges_version_ = device_memory_version();
    ranges_ = device_memory();
    range_hint_.fill(0);
  }
  const uint64_t index = blockIdx.x + uint64_t(gridDim.x) * (blockIdx.y + uint64_t(gridDim.y) * blockIdx.z);
  check_.block_begins(first_block, static_cast<uint32_t>(first_block + index), runner.thread_count());
}
std::string Recorder::block_ends() {
  log_.next_warp();
  return std::exchange(uninitialised_, "");
}
void Recorder::kernel_ends() {
  if (!work_) return;
  add_to_total(work_->kernel, barriers_, log_.take());
  work_ = nullptr;
  barriers_.clear();
}

void Recorder::count_barrier(Site site, bool of_warp) {
  for (BarrierTally& tally : barriers_)
    if (tally.of_warp == of_warp && tally.site == site) {
      ++tally.count;
      return;
    }
  barriers_.push_back({site, of_warp, 1});
}
void Recorder::barrier(Site site) {
  if (!uninitialised_.empty()) runner_->give_up(uninitialised_);
  count_barrier(site, false);
  check_.clock().barrier();
  log_.close_all();
}
void Recorder::meeting(const Meeting& meeting) {
  if (meeting.syncwarp) count_barrier(meeting.site, true);
  if (meeting.orders) check_.clock().meeting(meeting.warp, meeting.mask);
  if (meeting.mask == 0xffffffffu) log_.close_all();
}
void Recorder::round_ends(const std::vector<int>& paused) {
  unsigned lanes = 0;
  for (const int thread : paused) lanes |= 1u << (thread % kWarp);
  log_.close_passed(lanes);
}

bool Recorder::of_the_host(uintptr_t address) const {
  if (address - reinterpret_cast<uintptr_t>(work_->closure) < work_->closure_bytes) return true;  // the arguments
  if (runner_->on_a_stack(address)) return true;
  return address >= reinterpret_cast<uintptr_t>(&__executable_start) && address < reinterpret_cast<uintptr_t>(&_end);
}

const DeviceRange* Recorder::range_of(uintptr_t address, const void* pc) {
  size_t& hint = range_hint_[reinterpret_cast<uintptr_t>(pc) / 4 % range_hint_.size()];
  if (hint < ranges_.size() && address - ranges_[hint].begin < ranges_[hint].end - ranges_[hint].begin)
    return &ranges_[hint];
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                      [](uintptr_t a, const DeviceRange& range) { return a < range.begin; });
  if (after == ranges_.begin() || address >= (after - 1)->end) return nullptr;
  hint = static_cast<size_t>(after - 1 - ranges_.begin());
  return &ranges_[hint];
}

Recorder::Place Recorder::place_of(uintptr_t address, int bytes, AccessKind kind, const void* pc) {
  const auto size = static_cast<uintptr_t>(bytes);
  if (const DeviceRange* range = range_of(address, pc)) {
    if (address + size > range->end)
      give_up(location(pc, {}), fmt::format("out of bounds: {} {} bytes at byte {} of a buffer of {} bytes", verb(kind),
                                            bytes, address - range->begin, range->end - range->begin));
    return {Space::global, range->cells, address - range->begin};
  }
  if (address - dynamic_begin_ < kSharedCapacity) {
    if (address - dynamic_begin_ + size > dynamic_bytes_)
      give_up(location(pc, {}),
              fmt::format("out of bounds: {} {} bytes at byte {} of {} bytes of dynamic shared memory", verb(kind),
                          bytes, address - dynamic_begin_, dynamic_bytes_));
    return {Space::shared, dynamic_cells_, address - dynamic_begin_};
  }
  if (address - static_begin_ < static_bytes_) {
    for (const void* builtin : {static_cast<void*>(&::threadIdx), static_cast<void*>(&::blockIdx),
                                static_cast<void*>(&::blockDim), static_cast<void*>(&::gridDim)})
      if (address - reinterpret_cast<uintptr_t>(builtin) < sizeof(uint3)) return {Space::shared, nullptr, 0};
    if (bytes == 1 && is_guard(address - thread_locals_.begin)) return {Space::shared, nullptr, 0};
    return {Space::shared, static_cells_, address - static_begin_};
  }
  if (of_the_host(address)) return {Space::global, nullptr, 0};
  give_up_outside(address, bytes, kind, pc);
}

void Recorder::access(uintptr_t address, int bytes, AccessKind kind, const void* pc) {
  if (runner_->on_this_stack(address)) return;  // a variable of the thread's own
  const Place place = place_of(address, bytes, kind, pc);
  if (!place.cells) return;
  const int thread = runner_->current();
  if (address % static_cast<unsigned>(bytes) != 0)
    give_up(location(pc, {}), fmt::format("misaligned: {} {} bytes at an address that is not a multiple of {}",
                                          verb(kind), bytes, bytes));
  {
    const bool global = place.space == Space::global;
    std::optional<Conflict> conflict;
    {
      const CellLock lock(address, global && !alone_);
      conflict = check_.access(place.cells, place.offset, bytes, kind, thread, program_offset(pc), !global);
    }
    if (conflict) report(*conflict, place.space, bytes, kind, pc);
  }
  log_.add({pc, place.space, kind == AccessKind::read, bytes, kind == AccessKind::async_write}, lane_of_log(), address);
  one_done();
}

void Recorder::comparison(const void* pc) {
  if (log_.pass(pc, lane_of_log())) one_done();
}

// The current thread's lane in its warp, whose requests are in the log.
int Recorder::lane_of_log() {
  const int thread = runner_->current();
  if (warp_ != thread / kWarp) {
    log_.next_warp();
    warp_ = thread / kWarp;
  }
  return thread % kWarp;
}
void Recorder::one_done() {
  if (--accesses_left_ > 0) return;
  runner_->yield();
  accesses_left_ = kTurn;
}

void Recorder::copy_begins(const AsyncCopy& copy) {
  // One instruction reads and writes. The log knows an instruction by its address, so the read gets one just in front of
  // the write's: lanes that read nothing, because they copy zeros, stay in step with those that do.
  const void* read_pc = static_cast<const char*>(copy.pc) - 1;
  if (copy.valid_bytes > 0) access(reinterpret_cast<uintptr_t>(copy.from), copy.valid_bytes, AccessKind::read, read_pc);
  access(reinterpret_cast<uintptr_t>(copy.to), copy.bytes, AccessKind::async_write, copy.pc);
}
void Recorder::copy_ends(const AsyncCopy& copy) {
  const auto to = reinterpret_cast<uintptr_t>(copy.to);
  const Place place = place_of(to, copy.bytes, AccessKind::async_write, copy.pc);
  check_.async_done(place.cells, place.offset, copy.bytes, runner_->current());
}

}  // namespace simt
