// 09 · pitfall: something that happens at the first launch happens inside the capture
//
// The first launch of a kernel loads its module (CUDA_MODULE_LOADING=LAZY is the default since CUDA 12.2 on Linux), and
// operators like to make a table or scratch memory the first time they are called. Inside a capture such work is refused
// or, where a driver allows it, makes the capture slow. Triton and torch.compile compile there as well.
// Cure: run the step before it is captured. The decoder runs three.
#pragma once
#include <chrono>

#include "09_cuda_graph_decode/pitfalls/pitfall.hpp"

// [first_launch]
// y = x⁴; makes its temporary when it is first called, as many a library does.
class FourthPower {
 public:
  void operator()(Stream& stream, const float* x, float* y) {
    if (temporary_.size() == 0) temporary_ = DeviceBuffer<float>(1);
    launch(square, dim3(1), dim3(1), on(stream), x, temporary_.data());
    launch(square, dim3(1), dim3(1), on(stream), temporary_.data(), y);
  }

 private:
  DeviceBuffer<float> temporary_;
};
// [/first_launch]

inline Shown show_first_launch() {
  Stream stream;
  DeviceBuffer<float> x(std::vector<float>{3}), y(1);
  // [first_launch_cure]
  const auto captured = [&](int warm_ups) {
    FourthPower power;
    for (int i = 0; i < warm_ups; ++i) power(stream, x.data(), y.data());
    stream.synchronize();
    y.poison();
    const Graph graph = Graph::capture(stream, [&] { power(stream, x.data(), y.data()); });
    replay(graph, stream);
    return y.to_host()[0];
  };
  // [/first_launch_cure]
  return {"81", outcome([&] { return captured(0); }), outcome([&] { return captured(1); })};
}

#if ON_GPU
inline __global__ void launched_nowhere_else(float* x) { *x = 42; }

// A kernel that never ran is captured twice: the first capture loads it.
inline std::string cuda_on_first_launch() {
  Stream stream;
  DeviceBuffer<float> x(1);
  const auto capture_us = [&] {
    const auto start = std::chrono::steady_clock::now();
    Graph::capture(stream, [&] { launch(launched_nowhere_else, dim3(1), dim3(1), on(stream), x.data()); });
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  };
  return outcome([&] {
    const double first = capture_us(), second = capture_us();
    return fmt::format("capture of a kernel that is not loaded {:.0f} us, once more {:.0f} us", first, second);
  });
}
#endif
