#include "common/bench.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

#if ON_GPU

double time_once(Stream& stream, const std::function<void()>& enqueue) {
  static Event before, after;
  before.record(stream);
  enqueue();
  after.record(stream);
  after.synchronize();
  float ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&ms, before.handle, after.handle));
  return 1e-3 * ms;
}

Timing time_work(Stream& stream, int samples, const std::function<void(int)>& work, bool as_graph) {
  int run = 0;
  for (int i = 0; i < 3; ++i) work(run++);
  stream.synchronize();
  const double once = time_once(stream, [&] { work(run++); });
  const int millisecond = std::max(1, std::min(256, static_cast<int>(std::lround(1e-3 / once))));
  const int batch = as_graph ? millisecond : 1;
  std::vector<double> times;
  if (batch == 1) {
    for (int i = 0; i < samples; ++i) times.push_back(time_once(stream, [&] { work(run++); }));
  } else {
    const Graph graph = Graph::capture(stream, [&] {
      for (int i = 0; i < batch; ++i) work(run++);
    });
    graph.replay(stream);
    for (int i = 0; i < samples; ++i) times.push_back(time_once(stream, [&] { graph.replay(stream); }) / batch);
  }
  std::sort(times.begin(), times.end());
  const size_t n = times.size();
  return {times[n / 2], (times[n * 9 / 10] - times[n / 10]) / times[n / 2]};
}

#else

double time_once(Stream& stream, const std::function<void()>& enqueue) {
  enqueue();
  stream.synchronize();
  return 0;
}

Timing time_work(Stream&, int, const std::function<void(int)>&, bool) { return {}; }

#endif
