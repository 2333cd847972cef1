// What the kernels of an instrumented build did, counted access by access: see README.md in this folder.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace simt {

enum class Space { global, shared };

// What the requests of one source line of a kernel did, summed over all launches since the last take_counts().
struct LineCounts {
  std::string file;  // of the access: the innermost inlined frame that is not in a header of common/
  int line = 0;
  Space space = Space::global;
  bool load = false;                              // loads and stores of one line are two entries; an atomic is a store
  int bytes_per_lane = 0;                         // width; an access of another width is another entry
  uint64_t requests = 0, lanes = 0;               // warp requests, lane accesses
  uint64_t sectors = 0, l1_lines = 0;             // global: 32-byte sectors, 128-byte lines
  uint64_t wavefronts = 0, least_wavefronts = 0;  // shared: by request_cost.hpp
  uint64_t bytes = 0;                             // bytes the lanes moved
  bool async = false;                             // stores of cp.async; an entry apart from other stores of the line
};

// A __syncthreads or a __syncwarp.
struct BarrierCounts {
  std::string file;
  int line = 0;
  bool of_warp = false;  // __syncwarp
  uint64_t count = 0;    // blocks or warps that passed it
};

struct KernelCounts {
  std::string kernel;                                            // demangled, without arguments
  uint64_t launches = 0, blocks = 0, threads = 0, barriers = 0;  // barriers: block-wide, summed over blocks
  double flops = 0;               // 0: a kernel does not say; a rung of a step does (step.hpp)
  std::vector<LineCounts> lines;  // ordered by file, line
  std::vector<BarrierCounts> barrier_lines;
};

// Is this program an instrumented build? In any other, take_counts() is empty.
bool counting();

// Everything since the last call, in order of first launch.
std::vector<KernelCounts> take_counts();

}  // namespace simt
