// 09 · what every pitfall of this folder hands back, and the two helpers that all of them use
#pragma once
#include <fmt/format.h>

#include <string>

#include "common/launch.hpp"

// The same work by hand, recorded wrongly, and recorded rightly. `wrong` is a number or the error that stopped it.
struct Shown {
  std::string wanted, wrong, right;
};

// What `work` returns, as text, or the message of its error.
template <class Work>
std::string outcome(const Work& work) {
  try {
    return fmt::format("{}", work());
  } catch (const EnvironmentError& error) {
    return error.what();
  }
}

inline void replay(const Graph& graph, Stream& stream, int times = 1) {
  for (int i = 0; i < times; ++i) graph.replay(stream);
  stream.synchronize();
}

// The kernels of the examples; one thread each where nothing else is said.
inline __global__ void add_one(float* x) { *x += 1; }
inline __global__ void halve(float* x) { *x /= 2; }
inline __global__ void square(const float* x, float* y) { *y = *x * *x; }
