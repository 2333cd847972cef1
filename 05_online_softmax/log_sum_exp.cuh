// 05 · log-sum-exp: the first half of the online softmax is a result of its own
//
// out[r] = log Σ exp(x[r, c]) = m + log(l). A token's log-probability is its logit minus this; attention kernels store
// it to merge parts of a row that were worked on apart.
#pragma once
#include "05_online_softmax/online.cuh"
#include "05_online_softmax/row_access.cuh"

template <int V, int THREADS>
__global__ void __launch_bounds__(THREADS) log_sum_exp_kernel(const float* x,  // [rows, cols]
                                                              float* out,      // [rows]
                                                              unsigned cols) {
  Online row = nothing_seen();
  for_batches<V, THREADS>(x + size_t(blockIdx.x) * cols, 0, cols,
                          [&](unsigned, const float(&v)[kBatch / V][V]) { row = add(row, v); });
  row = block_merge<THREADS>(row);
  if (threadIdx.x == 0) out[blockIdx.x] = shift_of(row.max) + logf(row.sum);
}

// A row of −inf alone gives −inf, one that holds +inf gives +inf, one that holds NaN gives NaN.
inline void log_sum_exp(Stream& stream,
                        const float* x,  // device, [rows, cols]
                        float* out,      // device, [rows]
                        int64_t rows, int cols) {
  with_pack_width(x, x, cols, [&](auto width) {
    constexpr int V = decltype(width)::value;
    const auto kernel = cols <= 4096 ? log_sum_exp_kernel<V, 128> : log_sum_exp_kernel<V, 1024>;
    for_row_slabs(rows, [&](int64_t row, int64_t count) {
      launch(kernel, dim3(unsigned(count)), dim3(cols <= 4096 ? 128 : 1024), on(stream), x + row * cols, out + row,
             unsigned(cols));
    });
  });
}
