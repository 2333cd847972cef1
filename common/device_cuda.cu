// device.hpp on CUDA.
#include <fmt/format.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <unordered_map>

#include "common/capture.hpp"
#include "common/device.hpp"
#include "env_check/tables.hpp"

namespace {

std::mutex sizes_mutex;
std::unordered_map<void*, size_t> sizes;
std::atomic<size_t> in_use{0}, peak{0};

int attribute(cudaDeviceAttr which) {
  int value = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&value, which, 0));
  return value;
}

// "580.159.03" from the driver's own file; the API only tells the CUDA version it supports.
std::string driver_version() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string text;
  if (std::getline(file, text)) return text;
  int version = 0;
  cudaDriverGetVersion(&version);
  return fmt::format("for CUDA {}.{}", version / 1000, version % 1000 / 10);
}

__global__ void probe_kernel(int* out) { *out = 42; }

}  // namespace

// What stands behind an error, and where to read more; the causes are env_check's.
static std::string explained(cudaError_t error) {
  const std::string cause = env_check::error_code(static_cast<int>(error)).cause;
  return (cause.empty() ? "" : cause + " ") + "`make env_check` says more.";
}

void throw_cuda_error(cudaError_t error, const char* call, const char* file, int line) {
  throw EnvironmentError(fmt::format("{}:{}: {} failed: {} ({}, {}). {}", file, line, call, cudaGetErrorString(error),
                                     cudaGetErrorName(error), static_cast<int>(error), explained(error)));
}

std::string why_no_device() {
  static const std::string reason = [] {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
    int* word = nullptr;
    if (error == cudaSuccess) error = cudaMalloc(&word, sizeof(int));
    if (error == cudaSuccess) {
      probe_kernel<<<1, 1>>>(word);
      error = cudaGetLastError();
      if (error == cudaSuccess) error = cudaDeviceSynchronize();
      cudaFree(word);
    }
    cudaGetLastError();  // leaves no error behind for the next check
    if (error == cudaSuccess) return std::string();
    std::string cause = env_check::error_code(static_cast<int>(error)).cause;
    if (!cause.empty()) cause = ". " + cause.substr(0, cause.size() - 1);  // the caller ends the sentence
    return fmt::format("no usable GPU: {} ({}){}", cudaGetErrorString(error), cudaGetErrorName(error), cause);
  }();
  return reason;
}

namespace {

// Code for sm_90 and for sm_90a run on the same card, but only the second may use its own instructions: the runtime says
// which bound of threads the code has that it would run.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr int kProbeThreads = 64;
#else
constexpr int kProbeThreads = 32;
#endif
__global__ void __launch_bounds__(kProbeThreads) hopper_probe() {}

bool has_hopper_code() {
  cudaFuncAttributes attributes{};
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, hopper_probe));
  return CUDART_VERSION >= 12000 && attributes.maxThreadsPerBlock == 64;
}

}  // namespace

const DeviceInfo& device() {
  static const DeviceInfo info = [] {
    DeviceInfo d;
    d.gpu = true;
    cudaDeviceProp properties{};
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    d.name = properties.name;
    d.sm = 10 * properties.major + properties.minor;
    d.multiprocessors = properties.multiProcessorCount;
    d.memory_bytes = properties.totalGlobalMem;
    d.l2_bytes = static_cast<size_t>(properties.l2CacheSize);
    d.shared_bytes_per_block = properties.sharedMemPerBlockOptin;
    d.clock_hz = 1e3 * attribute(cudaDevAttrClockRate);
    int runtime = 0;
    CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    d.runtime = fmt::format("{}.{}", runtime / 1000, runtime % 1000 / 10);
    d.driver = driver_version();
    d.has_bf16_mma = d.sm >= 80;
    d.has_wgmma = d.sm == 90 && has_hopper_code();
    return d;
  }();
  return info;
}

void device_synchronize() {
  refuse_in_capture("device_synchronize");  // as CUDA would, but with the capture still valid and the cause in words
  CUDA_CHECK(cudaDeviceSynchronize());
}

size_t free_device_bytes() {
  size_t free_bytes = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total));
  return free_bytes;
}

void* device_allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  refuse_in_capture("device_allocate");
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the failure is reported here; later checks must not see it again
    throw EnvironmentError(fmt::format("out of device memory: {} bytes wanted, {} free", bytes, free_device_bytes()));
  }
  CUDA_CHECK(error);
  CUDA_CHECK(cudaMemset(data, 0xff, bytes));
  CUDA_CHECK(cudaStreamSynchronize(nullptr));
  std::lock_guard<std::mutex> lock(sizes_mutex);
  sizes[data] = bytes;
  in_use += bytes;
  if (in_use > peak) peak = in_use.load();
  return data;
}

void device_free(void* address) noexcept {
  if (!address) return;
  note_free_in_capture();
  cudaFree(address);
  std::lock_guard<std::mutex> lock(sizes_mutex);
  in_use -= sizes[address];
  sizes.erase(address);
}

size_t device_bytes_in_use() { return in_use; }
size_t device_bytes_peak() { return peak; }

PinnedBuffer::PinnedBuffer(size_t bytes) {
  refuse_in_capture("PinnedBuffer");
  void* data = nullptr;
  CUDA_CHECK(cudaHostAlloc(&data, bytes, cudaHostAllocDefault));
  data_ = static_cast<std::byte*>(data);
}
PinnedBuffer::~PinnedBuffer() { cudaFreeHost(data_); }

Stream::Stream() { CUDA_CHECK(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)); }
Stream::~Stream() { cudaStreamDestroy(handle); }
void Stream::synchronize() {
  if (capture_state.stream == this) refuse_in_capture("Stream::synchronize");
  CUDA_CHECK(cudaStreamSynchronize(handle));
}
bool Stream::capturing() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CUDA_CHECK(cudaStreamIsCapturing(handle, &status));
  return status != cudaStreamCaptureStatusNone;
}

Event::Event() { CUDA_CHECK(cudaEventCreate(&handle)); }
Event::~Event() { cudaEventDestroy(handle); }
void Event::record(Stream& stream) { CUDA_CHECK(cudaEventRecord(handle, stream.handle)); }
void Event::synchronize() { CUDA_CHECK(cudaEventSynchronize(handle)); }

Graph Graph::capture(Stream& stream, const std::function<void()>& work) {
  const CaptureScope scope(stream);
  CUDA_CHECK(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t recorded = nullptr;
  try {
    work();
    scope.check_frees();
  } catch (...) {
    cudaStreamEndCapture(stream.handle, &recorded);
    if (recorded) cudaGraphDestroy(recorded);
    cudaGetLastError();  // a capture that was broken off leaves its error behind
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(stream.handle, &recorded));
  Graph graph;
  size_t nodes = 0;
  CUDA_CHECK(cudaGraphGetNodes(recorded, nullptr, &nodes));
  graph.nodes_ = static_cast<int>(nodes);
  graph.scratch_ = stream.scratch_;
  CUDA_CHECK(cudaGraphInstantiateWithFlags(&graph.exec_, recorded, 0));
  CUDA_CHECK(cudaGraphDestroy(recorded));
  return graph;
}
int Graph::refused_calls() { return capture_state.refused; }
Graph::Graph(Graph&& o) noexcept
    : nodes_(o.nodes_), scratch_(std::move(o.scratch_)), exec_(std::exchange(o.exec_, nullptr)) {}
Graph& Graph::operator=(Graph&& o) noexcept {
  nodes_ = o.nodes_;
  std::swap(scratch_, o.scratch_);
  std::swap(exec_, o.exec_);
  return *this;
}
Graph::~Graph() {
  if (exec_) cudaGraphExecDestroy(exec_);
}
void Graph::replay(Stream& stream) const { CUDA_CHECK(cudaGraphLaunch(exec_, stream.handle)); }

void copy_bytes_to_device(Stream& stream, void* to, const void* from, size_t bytes) {
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream.handle));
}
void copy_bytes_to_host(Stream& stream, void* to, const void* from, size_t bytes) {
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream.handle));
}
void copy_bytes_on_device(Stream& stream, void* to, const void* from, size_t bytes) {
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream.handle));
}
void fill_bytes(Stream& stream, void* to, unsigned char value, size_t bytes) {
  CUDA_CHECK(cudaMemsetAsync(to, value, bytes, stream.handle));
}
