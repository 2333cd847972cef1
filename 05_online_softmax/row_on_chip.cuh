// 05 · softmax in one pass: the row stays on the chip
//
// Against the two passes: the row is read from memory once. Then maximum first or online no longer matters: every
// further look at the row costs registers or shared memory, not the bus.
// Predict: 2 crossings, the least there is. What remains is to keep enough loads under way: bandwidth × latency =
//          4.3 TB/s × 0.7 µs = 3 MB over 132 multiprocessors, 24 KB each.
// Run: make step05     Look closer: make lab05 · make profile05
#pragma once
#include <algorithm>

#include "05_online_softmax/online.cuh"
#include "05_online_softmax/row_access.cuh"

// In registers ---------------------------------------------------------------------------------------------------------

constexpr int kRegisterCols = 32768;  // 1024 threads × 32 floats: the longest row one block holds in registers

// [registers]
// THREADS threads hold a row, FLOATS values each; a block takes ROWS rows, several only where a warp takes a row alone.
template <int V, int FLOATS, int THREADS, int ROWS>
__global__ void __launch_bounds__(THREADS* ROWS) softmax_registers_kernel(const float* x,  // [rows, cols]
                                                                          float* y,        // [rows, cols]
                                                                          int64_t rows, int cols) {
  static_assert(ROWS == 1 || THREADS == 32, "block_max and block_sum reduce over the whole block");
  static_assert(FLOATS % V == 0, "whole packs");
  constexpr int PACKS = FLOATS / V;
  const int64_t r = int64_t(blockIdx.x) * ROWS + threadIdx.y;
  if (r >= rows) return;  // a whole warp, and none of its block waits at a barrier
  const float* from = x + r * cols;
  float* to = y + r * cols;

  float row[PACKS][V];
  float max = -INFINITY;
#pragma unroll
  for (int p = 0; p < PACKS; ++p) {  // all loads are under way before the first value is needed
    const int at = (p * THREADS + threadIdx.x) * V;
    if (at < cols) {
      load_pack<V>(row[p], from + at);
    } else {
      for (int i = 0; i < V; ++i) row[p][i] = -INFINITY;
    }
  }
#pragma unroll
  for (int p = 0; p < PACKS; ++p)
    for (int i = 0; i < V; ++i) max = fmaxf(max, row[p][i]);
  max = block_max<THREADS>(max);

  const float shift = shift_of(max);
  float sum = 0.f;
#pragma unroll
  for (int p = 0; p < PACKS; ++p)
    for (int i = 0; i < V; ++i) sum += row[p][i] = __expf(row[p][i] - shift);
  const float scale = scale_of({max, block_sum<THREADS>(sum)});

#pragma unroll
  for (int p = 0; p < PACKS; ++p) {
    const int at = (p * THREADS + threadIdx.x) * V;
    if (at >= cols) break;
    for (int i = 0; i < V; ++i) row[p][i] *= scale;
    store_pack_streaming<V>(to + at, row[p]);
  }
}
// [/registers]

template <int FLOATS, int THREADS>
void launch_softmax_registers(Stream& stream, const float* x, float* y, int64_t rows, int cols) {
  constexpr int ROWS = THREADS == 32 ? 4 : 1;  // blocks of at least two warps: a multiprocessor holds 32 blocks at most
  with_pack_width(x, y, cols, [&](auto width) {
    constexpr int V = decltype(width)::value;
    for_row_slabs(rows, [&](int64_t row, int64_t count) {
      launch(softmax_registers_kernel<V, FLOATS, THREADS, ROWS>, dim3(unsigned(ceil_div(count, int64_t(ROWS)))),
             dim3(THREADS, ROWS), on(stream), x + row * cols, y + row * cols, count, cols);
    });
  });
}

// Rows of at most kRegisterCols; throws BadInput for longer ones. Up to 1024 values a warp takes a row, beyond that a
// block does, of as many threads as hold it with 32 values each.
inline void softmax_registers(Stream& stream, const float* x, float* y, int64_t rows, int cols) {
  if (cols > kRegisterCols)
    throw BadInput("softmax_registers: rows of " + std::to_string(cols) + " values; a block's registers hold " +
                   std::to_string(kRegisterCols));
  using Launcher = void (*)(Stream&, const float*, float*, int64_t, int);
  const Launcher form = cols <= 128     ? launch_softmax_registers<4, 32>
                        : cols <= 256   ? launch_softmax_registers<8, 32>
                        : cols <= 512   ? launch_softmax_registers<16, 32>
                        : cols <= 1024  ? launch_softmax_registers<32, 32>
                        : cols <= 2048  ? launch_softmax_registers<32, 64>
                        : cols <= 4096  ? launch_softmax_registers<32, 128>
                        : cols <= 8192  ? launch_softmax_registers<32, 256>
                        : cols <= 16384 ? launch_softmax_registers<32, 512>
                                        : launch_softmax_registers<32, 1024>;
  form(stream, x, y, rows, cols);
}

// In shared memory -----------------------------------------------------------------------------------------------------

// [shared]
// The first `kept` values of the row wait in shared memory; what does not fit is read a second time, soon enough to come
// from the L2. While the asynchronous copies are under way the block already works on the rest.
template <int V, int THREADS>
__global__ void __launch_bounds__(THREADS) softmax_shared_kernel(const float* x,  // [rows, cols]
                                                                 float* y,        // [rows, cols]
                                                                 unsigned cols, unsigned kept) {
  constexpr int PACKS = kBatch / V;
  float* held = dynamic_shared<float>();  // [kept]
  const float* from = x + size_t(blockIdx.x) * cols;
  float* to = y + size_t(blockIdx.x) * cols;

  for (unsigned at = threadIdx.x * V; at < kept; at += THREADS * V) copy_pack_async<V>(held + at, from + at);
  cp_async_commit();

  Online row = nothing_seen();
  const auto take_in = [&](unsigned, const float(&v)[PACKS][V]) { row = add(row, v); };
  for_batches<V, THREADS>(from, kept, cols, take_in);
  cp_async_wait<0>();  // enough without a barrier: a thread reads back only what it copied itself
  for_batches<V, THREADS>(held, 0, kept, take_in);
  row = block_merge<THREADS>(row);

  const float shift = shift_of(row.max), scale = scale_of(row);
  const auto probability = [&](float value) { return __expf(value - shift) * scale; };
  for_batches<V, THREADS>(from, kept, cols, [&](unsigned first, const float(&v)[PACKS][V]) {
    store_batch<V, THREADS>(to, first, cols, v, probability);
  });
  for_batches<V, THREADS>(held, 0, kept, [&](unsigned first, const float(&v)[PACKS][V]) {
    store_batch<V, THREADS>(to, first, kept, v, probability);
  });
}
// [/shared]

constexpr size_t kSharedReserve = 1280;  // 1 KB that the system takes from every block, and the reductions' own

// Any length. Rows that half of the shared memory nearly holds are taken by blocks of 512 threads, two a multiprocessor,
// so that one loads while the other writes; longer ones by one block of 1024 threads with all of it, which keeps the
// part to be read again small. `shared_limit`: bytes of shared memory a block may have.
inline void softmax_shared(Stream& stream, const float* x, float* y, int64_t rows, int cols,
                           size_t shared_limit = device().shared_bytes_per_block) {
  const size_t whole = shared_limit - std::min(shared_limit, kSharedReserve);
  const size_t half = whole / 2 - std::min(whole / 2, kSharedReserve);
  const bool two_blocks = sizeof(float) * size_t(cols) <= half + half / 4;
  const unsigned capacity = unsigned((two_blocks ? half : whole) / 16 * 4);  // a whole number of packs
  const unsigned kept = std::min(unsigned(cols), capacity);
  with_pack_width(x, y, cols, [&](auto width) {
    constexpr int V = decltype(width)::value;
    const auto kernel = two_blocks ? softmax_shared_kernel<V, 512> : softmax_shared_kernel<V, 1024>;
    for_row_slabs(rows, [&](int64_t row, int64_t count) {
      launch(kernel, dim3(unsigned(count)), dim3(two_blocks ? 512 : 1024), on(stream).smem(kept * sizeof(float)),
             x + row * cols, y + row * cols, unsigned(cols), kept);
    });
  });
}
