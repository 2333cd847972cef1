#include "common/roofline.hpp"

#include <algorithm>

#include "common/bench.hpp"
#include "common/launch.hpp"

double peak_fp32_flops(const DeviceInfo& d) {
  const int lanes = d.sm == 75 || d.sm == 80 ? 64 : 128;  // FMA lanes of one multiprocessor
  return d.gpu ? 2.0 * lanes * d.multiprocessors * d.clock_hz : 0;
}

double peak_bf16_flops(const DeviceInfo& d) {
  double per_clock = 0;  // FLOP of one multiprocessor in one clock
  switch (d.sm) {
    case 80:
      per_clock = 2048;
      break;
    case 86:
    case 89:
      per_clock = 512;
      break;
    case 90:
      per_clock = 4096;
      break;
    default:
      break;
  }
  return per_clock * d.multiprocessors * d.clock_hz;
}

namespace {

constexpr int kInFlight = 4;  // independent 16-byte loads of a thread before its first store

__global__ void copy_kernel(const uint4* from,  // [count]
                            uint4* to,          // [count]
                            size_t count) {
  const size_t first = size_t(blockIdx.x) * blockDim.x * kInFlight + threadIdx.x;
  uint4 v[kInFlight];
#pragma unroll
  for (int i = 0; i < kInFlight; ++i)
    if (first + i * blockDim.x < count) v[i] = load_streaming(&from[first + i * blockDim.x]);
#pragma unroll
  for (int i = 0; i < kInFlight; ++i)
    if (first + i * blockDim.x < count) to[first + i * blockDim.x] = v[i];
}

// Reads everything and writes only if a sum that never occurs occurs, so that no read can be left out.
__global__ void read_kernel(const uint4* from,  // [count]
                            unsigned* never, size_t count) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint4 v = load_streaming(&from[i]);
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678u) *never = sum;
}

double measure(bool write) {
  if (!device().gpu) return 0;
  const size_t bytes = std::min<size_t>(size_t(1) << 30, free_device_bytes() / 4) / 16 * 16;
  DeviceBuffer<uint4> from(bytes / 16), to(write ? bytes / 16 : 1);
  Stream stream;
  const dim3 read_grid(static_cast<unsigned>(device().multiprocessors * 32));
  const dim3 copy_grid(static_cast<unsigned>(ceil_div<size_t>(from.size(), 256 * kInFlight)));
  const Timing t = time_work(stream, 30, [&](int) {
    if (write)
      launch(copy_kernel, copy_grid, dim3(256), on(stream), from.data(), to.data(), from.size());
    else
      launch(read_kernel, read_grid, dim3(512), on(stream), from.data(), reinterpret_cast<unsigned*>(to.data()),
             from.size());
  });
  return static_cast<double>(write ? 2 * bytes : bytes) / t.seconds;
}

}  // namespace

double measured_copy_bandwidth() {
  static const double value = measure(true);
  return value;
}
double measured_read_bandwidth() {
  static const double value = measure(false);
  return value;
}
