// Every pitfall fails as its file says, its cure holds, and a capture refuses what a list cannot repeat.
#include "09_cuda_graph_decode/pitfalls/all.hpp"
#include "common/catch.hpp"

using Catch::Matchers::ContainsSubstring;

TEST_CASE("09 pitfalls: the wrong form fails, the cure gives what the work gives by hand", "[capture]") {
  for (const Pitfall& pitfall : pitfalls()) {
    INFO(pitfall.name);
    const Shown shown = pitfall.show();
    CHECK(shown.right == shown.wanted);
    CHECK(shown.wrong != shown.wanted);
    const bool refused = shown.wrong.find("while a graph is captured") != std::string::npos;
    CHECK(refused == pitfall.refused);
  }
}

TEST_CASE("09 pitfalls: CUDA itself refuses an allocation and a wait, and loads a kernel at its first launch",
          "[capture]") {
  for (const Pitfall& pitfall : pitfalls()) {
    const std::string text = pitfall.on_cuda();
    INFO(pitfall.name << ": " << text);
    if (!device().gpu)
      CHECK((!pitfall.refused || text.find("skipped: ") == 0));
    else if (pitfall.refused)
      CHECK_THAT(text, ContainsSubstring("cudaErrorStreamCapture"));
  }
}

TEST_CASE("09 a capture refuses allocation, free and waits, is over afterwards, and counts them", "[capture]") {
  Stream stream;
  DeviceBuffer<float> x(std::vector<float>{1});
  const int before = Graph::refused_calls();
  const auto refuses = [&](const char* call, const std::function<void()>& work) {
    std::string message;
    try {
      Graph::capture(stream, work);
    } catch (const EnvironmentError& error) {
      message = error.what();
    }
    CHECK_THAT(message, ContainsSubstring(call));
  };
  refuses("device_allocate", [] { DeviceBuffer<float> y(4); });
  refuses("Stream::synchronize", [&] { stream.synchronize(); });
  refuses("device_synchronize", [] { device_synchronize(); });
  refuses("device_synchronize", [&] { x.to_host(); });
  refuses("Graph::capture", [&] { Graph::capture(stream, [] {}); });
  {
    DeviceBuffer<float> early(1);
    refuses("device_free", [&] { DeviceBuffer<float> gone = std::move(early); });
  }
  CHECK(Graph::refused_calls() == before + 6);

  const Graph graph = Graph::capture(stream, [&] { launch(add_one, dim3(1), dim3(1), on(stream), x.data()); });
  replay(graph, stream, 2);
  CHECK(x.to_host()[0] == 3);
}
