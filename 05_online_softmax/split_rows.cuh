// 05 · softmax with several blocks a row
//
// Against one block a row: the logits of one token are a single row of 151 936 values. One block would leave 131 of 132
// multiprocessors idle and pull 608 KB through one of them.
// Predict: the least time is 1.2 MB / 4.3 TB/s = 0.3 µs, so what counts is latency: two launches and two trips to memory.
//          The partial results of the first kernel are 8 bytes a block.
// Run: make step05     One shape: build/bin/step05 --shape 1x151936
#pragma once
#include <algorithm>

#include "05_online_softmax/online.cuh"
#include "05_online_softmax/row_access.cuh"

constexpr int kSplitThreads = 256;  // also the most blocks a row has: each thread then merges one partial result
constexpr int kSplitRows = 64;      // with more rows than this, one block a row fills the card well enough
constexpr int kSplitSlice = 1024;   // the least values a block gets

// What the blocks of a row leave for each other; made before a graph is captured, one for each stream that runs at the
// same time.
struct SplitScratch {
  DeviceBuffer<float2> partials{kSplitRows * kSplitThreads};  // [rows, blocks a row]: maximum, sum
};

// [split]
// Blocks cannot wait for one another, so the row's maximum and sum go through memory and a second kernel.
template <int V>
__global__ void __launch_bounds__(kSplitThreads) softmax_partials_kernel(const float* x,    // [rows, cols]
                                                                         float2* partials,  // [rows, gridDim.x]
                                                                         unsigned cols, unsigned slice) {
  pdl_launch_dependents();  // the second kernel may take its place now; it waits for this one's results itself
  const float* row = x + size_t(blockIdx.y) * cols;
  const unsigned begin = min(blockIdx.x * slice, cols), end = min(begin + slice, cols);
  Online part = nothing_seen();
  for_batches<V, kSplitThreads>(row, begin, end,
                                [&](unsigned, const float(&v)[kBatch / V][V]) { part = add(part, v); });
  part = block_merge<kSplitThreads>(part);
  if (threadIdx.x == 0) partials[blockIdx.y * gridDim.x + blockIdx.x] = make_float2(part.max, part.sum);
}

template <int V>
__global__ void __launch_bounds__(kSplitThreads) softmax_finish_kernel(const float* x,          // [rows, cols]
                                                                       float* y,                // [rows, cols]
                                                                       const float2* partials,  // [rows, gridDim.x]
                                                                       unsigned cols, unsigned slice) {
  pdl_wait();
  Online row = nothing_seen();
  if (threadIdx.x < gridDim.x) {
    const float2 part = partials[blockIdx.y * gridDim.x + threadIdx.x];
    row = {part.x, part.y};
  }
  row = block_merge<kSplitThreads>(row);
  const float shift = shift_of(row.max), scale = scale_of(row);
  const size_t start = size_t(blockIdx.y) * cols;
  const unsigned begin = min(blockIdx.x * slice, cols), end = min(begin + slice, cols);
  for_batches<V, kSplitThreads>(x + start, begin, end, [&](unsigned first, const float(&v)[kBatch / V][V]) {
    store_batch<V, kSplitThreads>(y + start, first, end, v, [&](float value) { return __expf(value - shift) * scale; });
  });
}
// [/split]

// At most kSplitRows rows; throws BadInput for more.
inline void softmax_split(Stream& stream, const float* x, float* y, int64_t rows, int cols, SplitScratch& scratch) {
  if (rows > kSplitRows)
    throw BadInput("softmax_split: " + std::to_string(rows) + " rows; it is for " + std::to_string(kSplitRows) +
                   " at most");
  if (rows < 1) return;
  const int blocks_wanted = std::max(1, std::min<int>(kSplitThreads, 512 / int(rows)));
  const int slice = std::max(kSplitSlice, ceil_div(ceil_div(cols, blocks_wanted), 4) * 4);  // starts at whole packs
  const dim3 grid(unsigned(ceil_div(cols, slice)), unsigned(rows));
  with_pack_width(x, y, cols, [&](auto width) {
    constexpr int V = decltype(width)::value;
    launch(softmax_partials_kernel<V>, grid, dim3(kSplitThreads), on(stream), x, scratch.partials.data(),
           unsigned(cols), unsigned(slice));
    launch(softmax_finish_kernel<V>, grid, dim3(kSplitThreads), on(stream).pdl(), x, y, scratch.partials.data(),
           unsigned(cols), unsigned(slice));
  });
}
