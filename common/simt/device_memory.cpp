#include "common/simt/device_memory.hpp"

#include <sys/mman.h>

#include <atomic>
#include <map>
#include <mutex>

#include "common/error.hpp"

namespace simt {
namespace {

std::mutex mutex;
std::atomic<uint64_t> version{1};
std::map<uintptr_t, DeviceRange>& ranges() {
  static std::map<uintptr_t, DeviceRange> map;
  return map;
}
size_t cell_bytes(const DeviceRange& range) { return (range.end - range.begin + 3) / 4 * sizeof(Cell); }

}  // namespace

void add_device_memory(const void* begin, size_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(begin);
  DeviceRange range{first, first + bytes, nullptr};
  // pages of zeros that take memory only where a kernel comes by
  void* cells =
      mmap(nullptr, cell_bytes(range), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (cells == MAP_FAILED) throw EnvironmentError("executor: no memory to watch a device buffer with");
  range.cells = static_cast<Cell*>(cells);
  const std::lock_guard<std::mutex> lock(mutex);
  ranges()[first] = range;
  ++version;
}

void remove_device_memory(const void* begin) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto range = ranges().find(reinterpret_cast<uintptr_t>(begin));
  munmap(range->second.cells, cell_bytes(range->second));
  ranges().erase(range);
  ++version;
}

uint64_t device_memory_version() { return version; }

std::vector<DeviceRange> device_memory() {
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<DeviceRange> all;
  for (const auto& [begin, range] : ranges()) all.push_back(range);
  return all;
}

}  // namespace simt
