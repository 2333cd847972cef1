// 09 · pitfall: memory is allocated inside the capture
//
// cudaMalloc is no work of a stream: nothing of it can be recorded, and it may wait for the device, which runs nothing
// now. CUDA refuses it with cudaErrorStreamCaptureUnsupported and throws away what was recorded before.
// Cure: every buffer exists before the capture. A step of the decoder allocates nothing.
#pragma once
#include "09_cuda_graph_decode/pitfalls/pitfall.hpp"

inline Shown show_allocation() {
  Stream stream;
  DeviceBuffer<float> x(std::vector<float>{3}), y(1);
  // [allocation]
  // y = x⁴ by way of a temporary
  const auto enqueue = [&](float* temporary) {
    launch(square, dim3(1), dim3(1), on(stream), x.data(), temporary);
    launch(square, dim3(1), dim3(1), on(stream), temporary, y.data());
  };
  const auto wrong = [&] {
    const Graph graph = Graph::capture(stream, [&] {
      DeviceBuffer<float> temporary(1);  // refused; and it would be gone before the first replay
      enqueue(temporary.data());
    });
    replay(graph, stream);
    return y.to_host()[0];
  };
  const auto right = [&] {
    DeviceBuffer<float> temporary(1);  // lives longer than the graph
    const Graph graph = Graph::capture(stream, [&] { enqueue(temporary.data()); });
    replay(graph, stream);
    return y.to_host()[0];
  };
  // [/allocation]
  return {"81", outcome(wrong), outcome(right)};
}

#if ON_GPU
// What CUDA itself answers, and what becomes of the capture.
inline std::string cuda_on_allocation() {
  Stream stream;
  void* data = nullptr;
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal));
  const cudaError_t inside = cudaMalloc(&data, 4), end = cudaStreamEndCapture(stream.handle, &graph);
  cudaGetLastError();
  if (graph) cudaGraphDestroy(graph);
  cudaFree(data);
  return fmt::format("cudaMalloc {}, cudaStreamEndCapture {}", cudaGetErrorName(inside), cudaGetErrorName(end));
}
#endif
