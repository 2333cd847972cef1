// 09 · pitfall: the host waits, or reads a result, inside the capture
//
// While a graph is captured nothing runs: a wait for the device would never end, and a result read now is not there.
// In Python this is `.item()`, `.cpu()` or `torch.cuda.synchronize()`.
// Cure: record everything, replay, then wait; what a later kernel wants to know it reads from device memory.
#pragma once
#include "09_cuda_graph_decode/pitfalls/pitfall.hpp"

inline Shown show_synchronisation() {
  Stream stream;
  DeviceBuffer<float> x(std::vector<float>{3}), y(1);
  // [synchronisation]
  const auto wrong = [&] {
    float result = 0;
    const Graph graph = Graph::capture(stream, [&] {
      launch(square, dim3(1), dim3(1), on(stream), x.data(), y.data());
      copy_bytes_to_host(stream, &result, y.data(), sizeof result);
      stream.synchronize();  // refused: the kernel is written down, it does not run
    });
    return result;
  };
  const auto right = [&] {
    const Graph graph =
        Graph::capture(stream, [&] { launch(square, dim3(1), dim3(1), on(stream), x.data(), y.data()); });
    graph.replay(stream);
    float result = 0;
    copy_bytes_to_host(stream, &result, y.data(), sizeof result);
    stream.synchronize();  // outside
    return result;
  };
  // [/synchronisation]
  return {"9", outcome(wrong), outcome(right)};
}

#if ON_GPU
inline std::string cuda_on_synchronisation() {
  Stream stream;
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal));
  const cudaError_t inside = cudaStreamSynchronize(stream.handle), end = cudaStreamEndCapture(stream.handle, &graph);
  cudaGetLastError();
  if (graph) cudaGraphDestroy(graph);
  return fmt::format("cudaStreamSynchronize {}, cudaStreamEndCapture {}", cudaGetErrorName(inside),
                     cudaGetErrorName(end));
}
#endif
