#include "common/simt/block_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "common/simt/source_lines.hpp"

namespace simt {
namespace {

namespace ctx = boost::context::detail;

constexpr const char* kReturned =
    "__syncthreads is waited for by {}, but {} has returned: a barrier must be reached by every thread";

thread_local BlockRunner* starting = nullptr;  // whose fiber begins

}  // namespace

// With NaN, so that a read before a write shows.
void BlockRunner::poison_shared_memory(const Launch& launch) {
  std::memset(shared_.get(), 0xff, launch.shared_bytes);
  for (const auto* arrays : {launch.arrays.own, launch.arrays.of_functions})
    for (const StaticArray& array : *arrays)
      std::memset(reinterpret_cast<char*>(thread_locals_.begin + array.offset), 0xff, array.bytes);
}

void BlockRunner::run(const Launch& launch, uint3 block_index) {
  work_ = &launch.work;
  count_ = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  if (static_cast<int>(threads_.size()) < count_) threads_.resize(count_), copies_.resize(count_);
  meetings_.resize((count_ + kWarp - 1) / kWarp);
  for (auto& warp : meetings_) warp.clear();
  ready_.clear();
  paused_.clear();
  unstarted_ = finished_ = arrived_ = vote_ = 0;
  next_index_ = {0, 0, 0};
  error_.clear();
  poison_shared_memory(launch);
  hopper_.block_begins(count_, launch.shared_bytes);

  ::blockIdx = block_index;
  ::blockDim = launch.block;
  ::gridDim = launch.grid;
  idle_.clear();
  for (auto& fiber : fibers_) {
    fiber->context = nullptr;
    idle_.push_back(fiber.get());
  }
  if (observer_) observer_->block_begins(*this, launch.work, launch.first_block, launch.shared_bytes);
  starting = this;
  jump(idle_fiber());
  listener = nullptr;  // a kernel that failed has not returned
  if (error_.empty() && finished_ < count_) error_ = deadlock_report();
  if (error_.empty()) error_ = hopper_.block_ends();
  if (observer_) {
    const std::string wrong = observer_->block_ends();
    if (error_.empty()) error_ = wrong;
  }
  if (!error_.empty()) throw KernelError(error_);
}

Fiber* BlockRunner::idle_fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(fibers_.size()));
    idle_.push_back(fibers_.back().get());
  }
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  if (!fiber->context) fiber->context = ctx::make_fcontext(fiber->top(), fiber->size(), fiber_main);
  return fiber;
}

// Leaves the running fiber and returns when somebody jumps back to it.
inline void BlockRunner::jump(Fiber* to) {
  Fiber* self = running_;
  running_ = to;
  const ctx::transfer_t back = ctx::jump_fcontext(to->context, self);
  static_cast<Fiber*>(back.data)->context = back.fctx;
}

void BlockRunner::fiber_main(ctx::transfer_t from) {
  static_cast<Fiber*>(from.data)->context = from.fctx;
  BlockRunner* runner = starting;
  for (;;) {
    try {
      for (;;) runner->run_next_here();
    } catch (const KernelError& error) {
      listener = nullptr;
      runner->error_ = error.what();
    } catch (const std::exception& error) {
      listener = nullptr;
      runner->error_ = fmt::format("{}: {}", runner->name(runner->current_), error.what());
    }
    runner->jump(&runner->host_);  // the block is given up; its other fibers are never resumed
  }
}

inline int BlockRunner::next_thread() {
  if (!paused_.empty()) return next_of_round();
  if (ready_.empty()) return unstarted_ < count_ ? kStart : kNobody;
  const int thread = ready_.back();
  ready_.pop_back();
  return thread;
}

// While lanes of a warp are paused: first those of the same warp that are not, then the paused ones again.
int BlockRunner::next_of_round() {
  const int warp = paused_.back() / kWarp;
  const bool others_ready = !ready_.empty() && ready_.back() / kWarp == warp;
  const bool others_unstarted = ready_.empty() && unstarted_ < count_ && unstarted_ / kWarp == warp;
  if (!others_ready && !others_unstarted) {
    observer_->round_ends(paused_);
    ready_.insert(ready_.end(), paused_.rbegin(), paused_.rend());
    paused_.clear();
  }
  if (others_unstarted) return kStart;
  const int thread = ready_.back();
  ready_.pop_back();
  return thread;
}

void BlockRunner::run_next_here() {
  const int next = next_thread();
  if (next == kStart) {
    start_thread();
    listener = observer_.get();
    work_->invoke(work_->closure);
    listener = nullptr;
    finish_thread();
    return;
  }
  idle_.push_back(running_);
  if (next == kNobody) {
    jump(&host_);
  } else {
    current_ = next;
    jump(threads_[next].fiber);
  }
}

void BlockRunner::start_thread() {
  current_ = unstarted_++;
  Thread& thread = threads_[current_];
  thread.index = next_index_;
  thread.finished = false;
  thread.fiber = running_;
  copies_[current_].copies.clear();
  copies_[current_].group_ends.clear();
  ::threadIdx = next_index_;
  if (observer_) observer_->turn_begins();
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
  if (!copies_[current_].copies.empty()) {
    const AsyncCopy& copy = copies_[current_].copies.front();
    throw KernelError(describe(location(copy.pc, copy.site),
                               "the kernel ends while this cp.async is under way: cp_async_wait is missing", current_));
  }
  if (arrived_ > 0) fail(fmt::format(kReturned, name(first_arrival_), name(current_)), barrier_site_, first_arrival_);
  for (const WarpMeeting& meeting : meetings_[current_ / kWarp])
    if (meeting.mask >> (current_ % kWarp) & 1)
      fail(fmt::format("mask {:#010x} names lane {}, which has returned", meeting.mask, current_ % kWarp), meeting.site,
           current_);
  hopper_.thread_ends(current_);
}

inline void BlockRunner::wait() {
  const int self = current_;
  threads_[self].fiber = running_;
  const int next = next_thread();
  if (next == self) return;  // only a lane that yielded can be next itself
  if (next >= 0) {
    current_ = next;
    jump(threads_[next].fiber);
  } else {
    jump(next == kStart ? idle_fiber() : &host_);  // nobody can go on: a deadlock
  }
  current_ = self;
  ::threadIdx = threads_[self].index;
  if (observer_) observer_->turn_begins();
}

void BlockRunner::sleep() { wait(); }

void BlockRunner::yield() {
  paused_.push_back(current_);
  wait();
}

int BlockRunner::barrier(Site site, int vote) {
  if (arrived_ == 0) {
    barrier_site_ = site;
    first_arrival_ = current_;
    if (finished_ > 0) {
      int gone = 0;
      while (!threads_[gone].finished) ++gone;
      fail(fmt::format(kReturned, name(current_), name(gone)), site, current_);
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
  if (observer_) observer_->barrier(site);
  // This thread waits for its turn too: if it went on at once, its warp would be taken apart.
  for (int i = count_ - 1; i >= 0; --i) ready_.push_back(i);
  if (ready_.back() == current_)
    ready_.pop_back();
  else
    wait();
  return vote_result_;
}

void BlockRunner::rendezvous(unsigned mask, WarpOperation operation, void* slot, Site site, bool orders) {
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
  if (observer_) observer_->meeting({warp, mask, orders, slot == nullptr, site});
  operation(meeting->slots, mask);
  *meeting = waiting.back();
  waiting.pop_back();
  for (int i = kWarp - 1; i >= 0; --i)
    if ((mask >> i & 1) && i != lane) ready_.push_back(first + i);
}

bool BlockRunner::on_a_stack(uintptr_t address) const {
  return std::any_of(fibers_.begin(), fibers_.end(), [&](const auto& fiber) { return fiber->holds(address); });
}

void BlockRunner::give_up(const std::string& message) {
  error_ = message;
  jump(&host_);
  std::abort();  // a block that was given up is never resumed
}

}  // namespace simt
