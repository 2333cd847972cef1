// 09 · pitfall: grid or arguments follow a length that the host knows
//
// A length in a launch is a number in the list: keys that come later are never read. The first answers look right.
// Cure: the grid covers the capacity, the length lies in device memory, and threads behind it do nothing.
#pragma once
#include "09_cuda_graph_decode/pitfalls/pitfall.hpp"

// [shape_branch_cure]
inline __global__ void sum_of(const float* x, int length, float* sum) {  // one block
  if (static_cast<int>(threadIdx.x) < length) atomicAdd(sum, x[threadIdx.x]);
}
inline __global__ void sum_of_text(const float* x, const int* length, float* sum) {  // a block of the capacity
  if (static_cast<int>(threadIdx.x) < *length) atomicAdd(sum, x[threadIdx.x]);
}
// [/shape_branch_cure]

inline Shown show_shape_branch() {
  constexpr int kCapacity = 64, kAtCapture = 8, kLater = 40;
  Stream stream;
  const std::vector<float> ones(kCapacity, 1);
  DeviceBuffer<float> x(ones);
  // [shape_branch]
  const auto wrong = [&] {
    DeviceBuffer<float> sum(std::vector<float>{0});
    const int length = kAtCapture;  // the text's, today
    const Graph graph = Graph::capture(stream, [&] {
      launch(sum_of, dim3(1), dim3(ceil_div(length, 32) * 32), on(stream), x.data(), length, sum.data());
    });
    replay(graph, stream);  // the text has grown to kLater; the list has not
    return sum.to_host()[0];
  };
  const auto right = [&] {
    DeviceBuffer<float> sum(std::vector<float>{0});
    DeviceBuffer<int> length(std::vector<int>{kAtCapture});
    const Graph graph = Graph::capture(stream, [&] {
      launch(sum_of_text, dim3(1), dim3(kCapacity), on(stream), x.data(), length.data(), sum.data());
    });
    length.upload({kLater});
    replay(graph, stream);
    return sum.to_host()[0];
  };
  // [/shape_branch]
  return {"40", outcome(wrong), outcome(right)};
}
