// 09 · pitfall: the host chooses between two launches
//
// The `if` runs once, while the list is written. What it chose is in the list for ever, whatever the value becomes: no
// error, only wrong numbers from some step on.
// Cure: the kernel reads the value and branches itself.
#pragma once
#include "09_cuda_graph_decode/pitfalls/pitfall.hpp"

// [host_branch_cure]
inline __global__ void halve_or_add_one(float* x) { *x = *x > 4 ? *x / 2 : *x + 1; }
// [/host_branch_cure]

inline Shown show_host_branch() {
  constexpr int kSteps = 5;  // from 3: 4, 5, 2.5, 3.5, 4.5
  Stream stream;
  // [host_branch]
  const auto wrong = [&] {
    DeviceBuffer<float> x(std::vector<float>{3});
    const bool large = x.to_host()[0] > 4;  // true of the first step
    const Graph graph = Graph::capture(stream, [&] {
      if (large)
        launch(halve, dim3(1), dim3(1), on(stream), x.data());
      else
        launch(add_one, dim3(1), dim3(1), on(stream), x.data());
    });
    replay(graph, stream, kSteps);
    return x.to_host()[0];
  };
  const auto right = [&] {
    DeviceBuffer<float> x(std::vector<float>{3});
    const Graph graph =
        Graph::capture(stream, [&] { launch(halve_or_add_one, dim3(1), dim3(1), on(stream), x.data()); });
    replay(graph, stream, kSteps);
    return x.to_host()[0];
  };
  // [/host_branch]
  return {"4.5", outcome(wrong), outcome(right)};
}
