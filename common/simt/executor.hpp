// The CPU SIMT executor: runs a CUDA kernel without a GPU, one fiber per CUDA thread.
//
// A block lives on one host thread. Its CUDA threads are fibers that run in order until one has to wait for others
// (a barrier, a shuffle, an mma); then the next one runs. The last one to arrive does the work of all and makes them
// ready again. Several blocks run side by side on the host's cores.
//
// What the hardware leaves undefined is an error here, with kernel, block, thread and line: a barrier that not every
// thread reaches, a mask that names an absent lane, a deadlock.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/simt/cuda_types.hpp"

inline thread_local uint3 threadIdx{0, 0, 0};
inline thread_local uint3 blockIdx{0, 0, 0};
inline thread_local dim3 blockDim;
inline thread_local dim3 gridDim;
constexpr int warpSize = 32;

namespace simt {

// A rule of the CUDA programming model was broken by a kernel; what() names kernel, block, thread, line and reason.
struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A place in the source; the default arguments of the intrinsics below fill it in.
struct Site {
  const char* file;
  int line;
  bool operator==(const Site& o) const { return line == o.line && (file == o.file || std::strcmp(file, o.file) == 0); }
};

// A kernel with its arguments, ready to run for any block and thread.
struct Work {
  void (*invoke)(const void* closure);  // calls the kernel once, for the CUDA thread that is current
  const void* closure;
  size_t closure_bytes;
  const void* kernel;  // the kernel's address; names it in messages
};

constexpr size_t kMaxSharedBytes = 227 * 1024;  // what one block may have on sm_90, the most of any card so far

// Runs every block of the grid to its end. Throws KernelError, or BadInput for a launch that no GPU would accept.
void run_grid(const Work& work, dim3 grid, dim3 block, size_t dynamic_shared_bytes);

// How many host threads run blocks; the environment variable SIMT_THREADS overrides the number of cores.
int worker_count();
// The order in which blocks start: 0 is ascending, anything else shuffles by that seed.
void set_block_order(uint64_t seed);

// When an asynchronous copy happens: as late as it may, when it is waited for (false), or at once (true). Hardware does
// either; a copy that came too soon or was read too early shows in one of them. At first false, or true where the
// environment variable SIMT_COPIES is "early".
void set_early_copies(bool early);
bool copies_are_early();

// For experiments: the __syncthreads or __syncwarp of that line is taken for absent; line 0 brings all of them back.
void set_absent_barrier(const std::string& file, int line);

// Counts of everything run since the start of the process.
struct Counters {
  uint64_t launches = 0, blocks = 0, barriers = 0;  // barriers: block-wide rendezvous, summed over blocks
};
Counters counters();

// The pieces that intrinsics are made of ---------------------------------------------------------------------------

// Waits until every thread of the block is here. `vote` is added up over the block; returns the sum.
int block_barrier(Site site, int vote);

void syncthreads(Site site);
void syncwarp(unsigned mask, Site site);

// Waits until every lane named in `mask` is here with the same mask, operation and site; the last one to come calls
// operation(slots, mask) for all. `slot` is this lane's argument record and stays on its stack. `orders`: what a lane did
// in memory before is there for the others after it. That holds for __syncwarp, shuffles and votes; the tensor cores'
// instructions promise nothing of the kind.
using WarpOperation = void (*)(void* const slots[32], unsigned mask);
void warp_rendezvous(unsigned mask, WarpOperation operation, void* slot, Site site, bool orders = true);

int lane_id();
void thread_fence();
// In a loop that waits for what another block does: lets the host threads of other blocks go on. Fails where no other
// block is left that could.
void pause(Site site);
void* dynamic_shared_memory();

// cp.async: see set_early_copies.
void async_copy(void* to, const void* from, int bytes, int valid_bytes, Site site);
void async_commit();
void async_wait(int groups_left);

[[noreturn]] void fail(const char* reason, Site site);

}  // namespace simt
