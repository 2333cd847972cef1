// 05 · softmax in three passes, and in two
//
// Against 04: arithmetic no longer matters. A softmax does 5 operations for the 8 bytes it must move, so all that counts
// is how often the row crosses the memory bus.
// Predict: three passes read the row 3 times and write it once: 4 crossings where 2 are the least. The online form needs
//          2 reads and 1 write. Where the rows of all running blocks fit in the L2 together, the later reads come from
//          there and the difference shrinks.
// Run: make step05     Look closer: make lab05 · make profile05
#pragma once
#include "05_online_softmax/online.cuh"
#include "05_online_softmax/row_access.cuh"

constexpr int kPassThreads = 256;

// [three_passes]
// One block a row: find the maximum, sum the exponentials, write the quotients. The row comes from memory each time.
template <int V>
__global__ void __launch_bounds__(kPassThreads) softmax_three_passes_kernel(const float* x,  // [rows, cols]
                                                                            float* y,        // [rows, cols]
                                                                            unsigned cols) {
  constexpr int PACKS = kBatch / V;
  const float* from = x + size_t(blockIdx.x) * cols;
  float* to = y + size_t(blockIdx.x) * cols;

  float max = -INFINITY;
  for_batches<V, kPassThreads>(from, 0, cols, [&](unsigned, const float(&v)[PACKS][V]) {
    for (int p = 0; p < PACKS; ++p)
      for (int i = 0; i < V; ++i) max = fmaxf(max, v[p][i]);
  });
  max = block_max<kPassThreads>(max);
  const float shift = shift_of(max);

  float sum = 0.f;
  for_batches<V, kPassThreads>(from, 0, cols, [&](unsigned, const float(&v)[PACKS][V]) {
    for (int p = 0; p < PACKS; ++p)
      for (int i = 0; i < V; ++i) sum += __expf(v[p][i] - shift);
  });
  const float scale = scale_of({max, block_sum<kPassThreads>(sum)});

  for_batches<V, kPassThreads>(from, 0, cols, [&](unsigned first, const float(&v)[PACKS][V]) {
    store_batch<V, kPassThreads>(to, first, cols, v, [&](float value) { return __expf(value - shift) * scale; });
  });
}
// [/three_passes]

// y = softmax of each row of x; x == y is allowed, as in every form of this step.
inline void softmax_three_passes(Stream& stream, const float* x, float* y, int64_t rows, int cols) {
  with_pack_width(x, y, cols, [&](auto width) {
    constexpr int V = decltype(width)::value;
    for_row_slabs(rows, [&](int64_t row, int64_t count) {
      launch(softmax_three_passes_kernel<V>, dim3(unsigned(count)), dim3(kPassThreads), on(stream), x + row * cols,
             y + row * cols, unsigned(cols));
    });
  });
}

// [two_passes]
// Maximum and sum in one pass: whenever the maximum grows, the sum so far is scaled down to it.
template <int V>
__global__ void __launch_bounds__(kPassThreads) softmax_two_passes_kernel(const float* x,  // [rows, cols]
                                                                          float* y,        // [rows, cols]
                                                                          unsigned cols) {
  constexpr int PACKS = kBatch / V;
  const float* from = x + size_t(blockIdx.x) * cols;
  float* to = y + size_t(blockIdx.x) * cols;

  Online row = nothing_seen();
  for_batches<V, kPassThreads>(from, 0, cols, [&](unsigned, const float(&v)[PACKS][V]) { row = add(row, v); });
  row = block_merge<kPassThreads>(row);
  const float shift = shift_of(row.max), scale = scale_of(row);

  for_batches<V, kPassThreads>(from, 0, cols, [&](unsigned first, const float(&v)[PACKS][V]) {
    store_batch<V, kPassThreads>(to, first, cols, v, [&](float value) { return __expf(value - shift) * scale; });
  });
}
// [/two_passes]

inline void softmax_two_passes(Stream& stream, const float* x, float* y, int64_t rows, int cols) {
  with_pack_width(x, y, cols, [&](auto width) {
    constexpr int V = decltype(width)::value;
    for_row_slabs(rows, [&](int64_t row, int64_t count) {
      launch(softmax_two_passes_kernel<V>, dim3(unsigned(count)), dim3(kPassThreads), on(stream), x + row * cols,
             y + row * cols, unsigned(cols));
    });
  });
}
