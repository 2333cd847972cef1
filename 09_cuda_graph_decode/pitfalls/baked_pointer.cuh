// 09 · pitfall: the input moves to another buffer
//
// A launch is recorded with the addresses of its arguments. A graph that is handed new input in a new buffer goes on
// reading the old one; if that was freed, it reads whatever lies there now.
// Cure: one buffer for ever, and new input is copied into it.
#pragma once
#include "09_cuda_graph_decode/pitfalls/pitfall.hpp"

inline Shown show_baked_pointer() {
  Stream stream;
  DeviceBuffer<float> y(1);
  // [baked_pointer]
  const auto wrong = [&] {
    DeviceBuffer<float> x(std::vector<float>{3}), next(std::vector<float>{5});
    const Graph graph =
        Graph::capture(stream, [&] { launch(square, dim3(1), dim3(1), on(stream), x.data(), y.data()); });
    std::swap(x, next);  // x.data() is another address now
    replay(graph, stream);
    return y.to_host()[0];
  };
  const auto right = [&] {
    DeviceBuffer<float> x(std::vector<float>{3});
    const Graph graph =
        Graph::capture(stream, [&] { launch(square, dim3(1), dim3(1), on(stream), x.data(), y.data()); });
    x.upload({5});
    replay(graph, stream);
    return y.to_host()[0];
  };
  // [/baked_pointer]
  return {"25", outcome(wrong), outcome(right)};
}
