// The two machines behind one interface: buffers, streams, events, graphs, and what the card is.
//
// Compiled by nvcc this is CUDA. Compiled by a C++ compiler it is the CPU executor: device memory is host memory, a
// stream runs things at once, and a graph is a list of recorded launches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "common/error.hpp"

#if defined(__CUDACC__)
#define ON_GPU 1
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#define ON_GPU 0
#include "common/simt/intrinsics.hpp"
#include "common/simt/tensor_core.hpp"
#endif

using bfloat16 = __nv_bfloat16;

template <class T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

#if ON_GPU
// Turns a CUDA error into an exception that names call, file and line.
[[noreturn]] void throw_cuda_error(cudaError_t error, const char* call, const char* file, int line);
#define CUDA_CHECK(call)                                                                                \
  do {                                                                                                  \
    const cudaError_t cuda_check_error = (call);                                                        \
    if (cuda_check_error != cudaSuccess) throw_cuda_error(cuda_check_error, #call, __FILE__, __LINE__); \
  } while (0)
#endif

// What runs the kernels. Read once, on the first call.
struct DeviceInfo {
  std::string name;         // "NVIDIA H200", or "CPU executor"
  bool gpu = false;         // false on the executor
  int sm = 0;               // 90 for compute capability 9.0; 0 on the executor
  int multiprocessors = 0;  // 1 on the executor
  size_t memory_bytes = 0;  // all of it
  size_t l2_bytes = 0;
  size_t shared_bytes_per_block = 0;  // the most one block may have
  double clock_hz = 0;                // highest SM clock; 0 on the executor
  std::string driver, runtime;        // "580.159", "13.0"; empty on the executor
  bool has_bf16_mma = true;           // mma.m16n8k16 for bfloat16: sm_80 and later, and the executor
  bool has_wgmma = true;              // wgmma and TMA: compute capability 9.0, code for sm_90a; and the executor
};
const DeviceInfo& device();

// Empty if kernels of this program can run here; else one line that says why not.
std::string why_no_device();

// Waits for everything enqueued on any stream.
void device_synchronize();

// Bytes of device memory that are free now.
size_t free_device_bytes();

// Raw device memory, poisoned with 0xff bytes (NaN for every floating-point type). Throws EnvironmentError when there
// is not enough, before anything is changed.
void* device_allocate(size_t bytes);
void device_free(void* address) noexcept;
// Memory of the host that the device copies from and to directly, at full speed and while the host goes on (pinned);
// plain memory on the executor. Throws EnvironmentError when there is not enough.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(size_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

// Bytes that device_allocate holds at this moment, and the most it ever held.
size_t device_bytes_in_use();
size_t device_bytes_peak();

class Graph;

// A queue of work on the device. On the executor everything has run when the call returns.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void synchronize();
  bool capturing() const;  // launches go into a graph

  // A T() that belongs to the stream, made by the first call: what kernels leave for one another in device memory. Work
  // on one stream runs in order, so no two launches use it at once; a graph uses that of the stream it was captured on.
  // Throws BadInput where the first call comes while a graph is captured, when nothing can be allocated.
  template <class T>
  T& scratch() {
    std::shared_ptr<void>& one = (*scratch_)[typeid(T)];
    if (!one && capturing())
      throw BadInput("scratch memory cannot be made while a graph is captured: run the same work once before");
    if (!one) one = std::make_shared<T>();
    return *static_cast<T*>(one.get());
  }

#if ON_GPU
  cudaStream_t handle = nullptr;
#else
  std::vector<std::function<void()> >* recording = nullptr;  // where launches go while a graph is captured
  void run(std::function<void()> work) {
    if (recording)
      recording->push_back(std::move(work));
    else
      work();
  }
#endif

 private:
  friend class Graph;
  using Scratch = std::map<std::type_index, std::shared_ptr<void> >;
  std::shared_ptr<Scratch> scratch_ = std::make_shared<Scratch>();
};

// A point in a stream's work. On the executor it has always been reached.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(Stream& stream);
  void synchronize();  // waits until the device has come to the point recorded last

#if ON_GPU
  cudaEvent_t handle = nullptr;
#endif
};

// A recorded sequence of launches that is started with one call.
class Graph {
 public:
  // Records what `work` enqueues on `stream`; nothing runs. A graph can hold no allocation, free or wait for the device:
  // inside `work` each throws EnvironmentError, and so does the capture.
  static Graph capture(Stream& stream, const std::function<void()>& work);
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();
  void replay(Stream& stream) const;
  int nodes() const { return nodes_; }  // kernels and copies in it
  // Calls of this thread, so far, that were refused because they came inside `work`.
  static int refused_calls();

 private:
  Graph() = default;
  int nodes_ = 0;
  std::shared_ptr<Stream::Scratch> scratch_;  // of the stream it was captured on: its kernels use it
#if ON_GPU
  cudaGraphExec_t exec_ = nullptr;
#else
  std::vector<std::function<void()> > launches_;
#endif
};

// Enqueued copies between host and device, and a fill; `count` elements.
void copy_bytes_to_device(Stream& stream, void* to, const void* from, size_t bytes);
void copy_bytes_to_host(Stream& stream, void* to, const void* from, size_t bytes);
void copy_bytes_on_device(Stream& stream, void* to, const void* from, size_t bytes);
void fill_bytes(Stream& stream, void* to, unsigned char value, size_t bytes);

// An array in device memory; starts poisoned with NaN.
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(size_t count) : data_(static_cast<T*>(device_allocate(count * sizeof(T)))), size_(count) {}
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size()) { upload(values); }
  DeviceBuffer(DeviceBuffer&& o) noexcept : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    return *this;
  }
  ~DeviceBuffer() { device_free(data_); }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }

  // These wait for everything enqueued before, on any stream, and until the copy is done.
  void upload(const std::vector<T>& values) {
    if (values.size() > size_) throw BadInput("DeviceBuffer::upload: more values than the buffer holds");
    device_synchronize();
    Stream stream;
    copy_bytes_to_device(stream, data_, values.data(), values.size() * sizeof(T));
    stream.synchronize();
  }
  std::vector<T> to_host() const {
    std::vector<T> values(size_);
    device_synchronize();
    Stream stream;
    copy_bytes_to_host(stream, values.data(), data_, bytes());
    stream.synchronize();
    return values;
  }
  // Fills with 0xff bytes: NaN for every floating-point type.
  void poison() {
    device_synchronize();
    Stream stream;
    fill_bytes(stream, data_, 0xff, bytes());
    stream.synchronize();
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};
