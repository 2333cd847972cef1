// What the recorder stops a block with.
#include <fmt/format.h>

#include <algorithm>

#include "common/simt/recorder.hpp"
#include "common/simt/source_lines.hpp"

namespace simt {

const char* verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::read:
      return "reads";
    case AccessKind::write:
      return "writes";
    case AccessKind::atomic:
      return "atomically updates";
    case AccessKind::async_write:
      return "copies by cp.async to";
  }
  return "";
}

void Recorder::give_up(const std::string& location, const std::string& reason) {
  if (!uninitialised_.empty()) runner_->give_up(uninitialised_);  // this is what came of it
  runner_->give_up(runner_->describe(location, reason, runner_->current()));
}

std::string Recorder::name_of(uint32_t block, int thread) const {
  const unsigned t = static_cast<unsigned>(thread);
  std::string name =
      fmt::format("thread ({},{},{})", t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y);
  const uint32_t index = block - first_block_;
  if (block != check_.block())
    name = fmt::format("block ({},{},{}) {}", index % gridDim.x, index / gridDim.x % gridDim.y,
                       index / gridDim.x / gridDim.y, name);
  return name;
}

void Recorder::report(const Conflict& conflict, Space space, int bytes, AccessKind kind, const void* pc) {
  const bool uninitialised = conflict.reason == Conflict::uninitialised;
  if (uninitialised && !uninitialised_.empty()) return;  // the first one is enough
  const std::string here = location(pc, {}), what = fmt::format("{} {} bytes", verb(kind), bytes);
  if (uninitialised) {
    uninitialised_ = runner_->describe(
        here, fmt::format("uninitialised: {} of shared memory that no thread of this block has written", what),
        runner_->current());
    return;
  }
  const bool async = conflict.reason == Conflict::async_copy;
  const char* missing = conflict.block != check_.block() ? "no atomic behind a __threadfence orders the blocks"
                        : async                          ? "no cp_async_wait lies between"
                        : conflict.same_warp             ? "no __syncwarp lies between"
                                                         : "no __syncthreads lies between";
  const char* did = conflict.reason == Conflict::read ? "read" : async ? "copies to by cp.async" : "wrote";
  uninitialised_.clear();
  give_up(
      here,
      fmt::format("data race on {} memory: {} that {} {} at {}; {}", space == Space::shared ? "shared" : "global", what,
                  name_of(conflict.block, conflict.thread), did, location(program_address(conflict.pc), {}), missing));
}

// Neither memory of the device nor the thread's own: says how far from the nearest buffer.
void Recorder::give_up_outside(uintptr_t address, int bytes, AccessKind kind, const void* pc) {
  std::string where = "no buffer is near";
  uintptr_t nearest = 1 << 20;
  for (const DeviceRange& range : ranges_) {
    const uintptr_t behind = address - range.end, before = range.begin - address;  // huge where it is on the other side
    if (std::min(behind, before) >= nearest) continue;
    nearest = std::min(behind, before);
    where = behind < before
                ? fmt::format("{} bytes behind the end of a buffer of {} bytes", behind, range.end - range.begin)
                : fmt::format("{} bytes before a buffer of {} bytes", before, range.end - range.begin);
  }
  give_up(location(pc, {}),
          fmt::format("out of bounds: {} {} bytes outside of device memory: {}", verb(kind), bytes, where));
}

}  // namespace simt
