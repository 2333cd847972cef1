// 09 · the list of pitfalls, for the program and for the tests
#pragma once
#include <functional>
#include <vector>

#include "09_cuda_graph_decode/pitfalls/allocation.cuh"
#include "09_cuda_graph_decode/pitfalls/baked_pointer.cuh"
#include "09_cuda_graph_decode/pitfalls/first_launch.cuh"
#include "09_cuda_graph_decode/pitfalls/host_branch.cuh"
#include "09_cuda_graph_decode/pitfalls/shape_branch.cuh"
#include "09_cuda_graph_decode/pitfalls/synchronisation.cuh"

struct Pitfall {
  const char *name, *what;
  bool refused;  // the wrong form stops with an error; else it gives a wrong number
  std::function<Shown()> show;
  std::function<std::string()> on_cuda;  // what CUDA says of it, or why nothing can be said here
};

inline std::vector<Pitfall> pitfalls() {
  const auto as_shown = [] { return std::string("as above: the list is wrong, and no call can tell"); };
#if ON_GPU
  const auto allocation = cuda_on_allocation, synchronisation = cuda_on_synchronisation,
             first_launch = cuda_on_first_launch;
#else
  const auto allocation = [] { return std::string("skipped: there is no CUDA here to ask"); };
  const auto synchronisation = allocation;
  const auto first_launch = [] { return std::string("skipped: the executor has no modules to load"); };
#endif
  return {{"allocation", "memory is allocated inside the capture", true, show_allocation, allocation},
          {"synchronisation", "the host waits inside the capture", true, show_synchronisation, synchronisation},
          {"host_branch", "the host chooses between two launches", false, show_host_branch, as_shown},
          {"shape_branch", "a launch follows a length of the host", false, show_shape_branch, as_shown},
          {"baked_pointer", "the input moves to another buffer", false, show_baked_pointer, as_shown},
          {"first_launch", "a first call does more than launch", true, show_first_launch, first_launch}};
}
