// device.hpp on the CPU executor.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "common/capture.hpp"
#include "common/device.hpp"
#include "common/host_memory.hpp"
#include "common/simt/counts.hpp"
#include "common/simt/device_memory.hpp"

namespace {
std::atomic<size_t> in_use{0}, peak{0};
constexpr size_t kHeader = 256;  // keeps the size in front of a buffer and the buffer 256-byte aligned, as on a GPU
}  // namespace

const DeviceInfo& device() {
  static const DeviceInfo info = [] {
    DeviceInfo d;
    d.name = "CPU executor";
    d.multiprocessors = 1;
    d.memory_bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
    d.shared_bytes_per_block = simt::kMaxSharedBytes;
    return d;
  }();
  return info;
}

std::string why_no_device() { return ""; }

void device_synchronize() { refuse_in_capture("device_synchronize"); }

size_t free_device_bytes() { return static_cast<size_t>(free_host_bytes()); }

void* device_allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  refuse_in_capture("device_allocate");
  void* block = nullptr;
  if (bytes > device().memory_bytes || posix_memalign(&block, kHeader, bytes + kHeader) != 0)
    throw EnvironmentError(
        fmt::format("out of memory: {} bytes wanted, the machine has {}", bytes, device().memory_bytes));
  *static_cast<size_t*>(block) = bytes;
  char* data = static_cast<char*>(block) + kHeader;
  std::memset(data, 0xff, bytes);
  if (simt::counting()) simt::add_device_memory(data, bytes);
  const size_t now = in_use += bytes;
  size_t seen = peak;
  while (now > seen && !peak.compare_exchange_weak(seen, now)) {
  }
  return data;
}

void device_free(void* address) noexcept {
  if (!address) return;
  note_free_in_capture();
  if (simt::counting()) simt::remove_device_memory(address);
  char* block = static_cast<char*>(address) - kHeader;
  in_use -= *reinterpret_cast<size_t*>(block);
  std::free(block);
}

size_t device_bytes_in_use() { return in_use; }
size_t device_bytes_peak() { return peak; }

PinnedBuffer::PinnedBuffer(size_t bytes) {
  refuse_in_capture("PinnedBuffer");
  data_ = static_cast<std::byte*>(std::malloc(bytes));
  if (!data_ && bytes > 0) throw EnvironmentError(fmt::format("out of memory: {} bytes wanted", bytes));
}
PinnedBuffer::~PinnedBuffer() { std::free(data_); }

Stream::Stream() = default;
Stream::~Stream() = default;
void Stream::synchronize() {
  if (capture_state.stream == this) refuse_in_capture("Stream::synchronize");
}
bool Stream::capturing() const { return recording != nullptr; }

Event::Event() = default;
Event::~Event() = default;
void Event::record(Stream&) {}
void Event::synchronize() {}

Graph Graph::capture(Stream& stream, const std::function<void()>& work) {
  const CaptureScope scope(stream);
  Graph graph;
  stream.recording = &graph.launches_;
  try {
    work();
    scope.check_frees();
  } catch (...) {
    stream.recording = nullptr;
    throw;
  }
  stream.recording = nullptr;
  graph.nodes_ = static_cast<int>(graph.launches_.size());
  graph.scratch_ = stream.scratch_;
  return graph;
}
int Graph::refused_calls() { return capture_state.refused; }
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;
void Graph::replay(Stream& stream) const {
  for (const auto& work : launches_) stream.run(work);
}

void copy_bytes_to_device(Stream& stream, void* to, const void* from, size_t bytes) {
  copy_bytes_on_device(stream, to, from, bytes);
}
void copy_bytes_to_host(Stream& stream, void* to, const void* from, size_t bytes) {
  copy_bytes_on_device(stream, to, from, bytes);
}
void copy_bytes_on_device(Stream& stream, void* to, const void* from, size_t bytes) {
  if (bytes > 0) stream.run([=] { std::memcpy(to, from, bytes); });
}
void fill_bytes(Stream& stream, void* to, unsigned char value, size_t bytes) {
  if (bytes > 0) stream.run([=] { std::memset(to, value, bytes); });
}
