// 09 · a checkpoint into device memory, as fast as the page cache and the bus allow
//
// One thread that reads through a mapping takes a page fault every 4 KB, copies once more into pinned memory inside the
// driver, and lets bus and reader wait for each other. Here several threads read pieces of the file into pinned memory
// of their own and hand each piece to the copy engine; while it travels, the thread reads the next one into its second
// buffer.
// Predict: 1.3 GB of page cache at 5 GB/s a thread, eight threads, over a bus of 50 GB/s: less than a tenth of a second,
//          where one thread with pageable memory needs most of a second.
#pragma once
#include <string>
#include <vector>

#include "09_cuda_graph_decode/safetensors.hpp"
#include "common/device.hpp"

struct TensorPlace {
  std::string name;
  bfloat16* to;  // device memory, `count` elements
  size_t count;
};

struct LoadOptions {
  int threads = 0;                 // 0: one a processor, at most 8; that many fill the bus
  size_t piece = size_t(2) << 20;  // elements a thread reads at a time: 4 MB of bfloat16
};

// Copies every tensor, rounding F32 to bfloat16; waits until all have arrived. The checkpoint was checked
// (check_checkpoint). Throws what Checkpoint::read throws.
void load_tensors(const Checkpoint& checkpoint, const std::vector<TensorPlace>& places,
                  const LoadOptions& options = {});
