// 08 · the tables that main.cu prints, one part each
#pragma once
#include <cmath>
#include <vector>

#include "08_qwen_operators/rms_norm.cuh"
#include "common/roofline.hpp"
#include "common/step.hpp"

Step operators_table();             // the 21 operators, --shape TOKENSxCONTEXT
std::vector<Step> fused_tables();   // each fused form beside its parts, --shape POSITION
std::vector<Step> linear_tables();  // split-K at M = 1, prefill at M > 1, --shape MxNxK
// Largest and mean difference and the worst position of every operator that operators_table() has checked.
void print_accuracy();

// "floor 2.20 µs": the least time in which this card reads so many bytes. Empty on the executor.
inline std::string floor_note(double bytes) {
  if (!device().gpu) return "";
  return fmt::format("read floor {:.2f} µs", 1e6 * bytes / measured_read_bandwidth());
}

// x Wᵀ in double on the device, one thread an output, with Σ|a·b|: plain and independent of every kernel it judges.
template <class Unused = void>
__global__ void linear_reference_kernel(const bfloat16* x,  // [M, K]
                                        const bfloat16* W,  // [N, K]
                                        double* want,       // [M, N]
                                        double* magnitude,  // [M, N]
                                        int64_t outputs, int N, int K) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= outputs) return;
  double sum = 0, size = 0;
  for (int k = 0; k < K; ++k) {
    const double product = double(__bfloat162float(x[i / N * K + k])) * double(__bfloat162float(W[i % N * K + k]));
    sum += product;
    size += fabs(product);
  }
  want[i] = sum;
  magnitude[i] = size;
}

// Compares y with x Wᵀ. A float sum may be off by dot_tolerance, its rounding to Out by half a step.
template <class Out>
Check check_linear(const bfloat16* x, const bfloat16* W, const DeviceBuffer<Out>& y, int M, int N, int K) {
  const int64_t outputs = int64_t(M) * N;
  DeviceBuffer<double> want(static_cast<size_t>(outputs)), magnitude(static_cast<size_t>(outputs));
  Stream stream;
  launch(linear_reference_kernel<>, dim3(static_cast<unsigned>(ceil_div<int64_t>(outputs, 256))), dim3(256), on(stream),
         x, W, want.data(), magnitude.data(), outputs, N, K);
  stream.synchronize();
  const auto value = want.to_host(), size = magnitude.to_host();
  const double ulp = sizeof(Out) == 2 ? kBfloat16Ulp : kFloatUlp;
  return compare(
      y.to_host(), value, [&](size_t i) { return dot_tolerance(size[i], K) * (1 + ulp) + ulp * std::fabs(value[i]); },
      size_t(N));
}
