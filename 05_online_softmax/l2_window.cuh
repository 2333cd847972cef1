// 05 · softmax of long rows: the second read comes out of the L2
//
// Against the row on the chip: a row of 151 936 floats fits no block, so part of it is read twice, and 132 rows at work are
// 80 MB: more than the L2 holds. Here all blocks work on the same few rows. Chunks of 16 KB are numbered along the tensor;
// one is summed up, and `lag` chunks later the same place is read again and written. Between the two lie a few megabytes.
// Predict: 2 crossings. The L2 serves 3, 1.5 × the traffic of a copy: 6.4 TB/s at the copy's 4.27, so 0.90 to 0.95 of it.
// Run: make step05     One shape: build/bin/step05 --shape 1024x151936
#pragma once
#include <algorithm>

#include "05_online_softmax/online.cuh"
#include "05_online_softmax/row_access.cuh"

constexpr int kWindowThreads = 256;
constexpr int kWindowChunk = kBatch * kWindowThreads;  // the most values of a chunk: one batch for each thread
constexpr int kWindowBlocks = 4;  // a multiprocessor; each moves 48 KB in about 3 µs of waiting: 8.4 TB/s over 132
constexpr int kWindowWords = 1 << 16;  // chunks a launch: 1 GB of values

// How the blocks of a launch share the work; made before a graph is captured, one for each stream that runs at the same
// time. With more rows than there are words for, softmax_window launches more than once.
struct WindowScratch {
  explicit WindowScratch(int chunks = kWindowWords) : words(1 + size_t(chunks)) {}
  int chunks() const { return int(words.size()) - 1; }
  // The number of the next chunk; then [rows, chunks a row], maximum and sum of a chunk, 0 as long as they are not known.
  DeviceBuffer<unsigned long long> words;
};

// Maximum and sum in one word, so that whoever finds one finds both and nothing has to be ordered. Never 0: a maximum of
// 0 was among the values, and exp(0 − 0) is in the sum.
__device__ __forceinline__ unsigned long long pack(Online part) {
  return __float_as_uint(part.max) | static_cast<unsigned long long>(__float_as_uint(part.sum)) << 32;
}
__device__ __forceinline__ Online unpack(unsigned long long word) {
  return {__uint_as_float(unsigned(word)), __uint_as_float(unsigned(word >> 32))};
}

// [window]
// Work goes out in the order of the tickets, whatever the order in which blocks start. A block that waits, waits for chunks
// of smaller tickets; those are in the hands of blocks that run, and of them the one with the smallest waits for nobody.
// With a lag of a row and a chunk a block, what it needs is there before it looks.
template <int V>
__global__ void __launch_bounds__(kWindowThreads, kWindowBlocks)
    softmax_window_kernel(const float* x,              // [rows, cols]
                          float* y,                    // [rows, cols]
                          unsigned long long* next,    // [1]
                          unsigned long long* totals,  // [rows, chunks]
                          unsigned rows, unsigned cols, unsigned chunks, unsigned length, unsigned lag) {
  __shared__ unsigned drawn;
  for (;;) {
    // [draw]
    if (threadIdx.x == 0) drawn = unsigned(atomicAdd(next, 1ull));
    __syncthreads();
    const unsigned ticket = drawn;
    // [/draw]
    if (ticket >= rows * chunks + lag) return;

    // Everything is asked for at once: a new chunk, an old one, and what the old one's row adds up to.
    float fresh[kBatch / V][V], again[kBatch / V][V];
    const auto load = [&](float(&values)[kBatch / V][V], unsigned chunk) {
      const unsigned begin = chunk % chunks * length, end = min(begin + length, cols);
      load_batch<V, kWindowThreads>(values, x + size_t(chunk / chunks) * cols, begin + threadIdx.x * V, end);
    };
    const bool reads = ticket < rows * chunks, writes = ticket >= lag;
    const unsigned old = ticket - lag, old_row = old / chunks;
    if (reads) load(fresh, ticket);
    if (writes) load(again, old);
    unsigned long long* of_row = totals + size_t(old_row) * chunks;
    unsigned long long word = writes && threadIdx.x < chunks ? load_relaxed(of_row + threadIdx.x) : 0;

    const Online part = block_merge<kWindowThreads>(reads ? add(nothing_seen(), fresh) : nothing_seen());
    if (reads && threadIdx.x == 0) {
      if (x == y) __threadfence();  // in place: this chunk has been read before another block writes there
      store_relaxed(totals + ticket, pack(part));
    }

    Online row = nothing_seen();
    if (writes)
      for (unsigned c = threadIdx.x; c < chunks; c += kWindowThreads, word = 0) {
        while (word == 0)
          if ((word = load_relaxed(of_row + c)) == 0) __nanosleep(50);
        row = merge(row, unpack(word));
      }
    __syncthreads();  // every thread has read what the merge above left, before the next one overwrites it
    row = block_merge<kWindowThreads>(row);  // in the same order whoever came first
    if (writes) {
      const float shift = shift_of(row.max), scale = scale_of(row);
      const unsigned begin = old % chunks * length, end = min(begin + length, cols);
      store_batch<V, kWindowThreads>(y + size_t(old_row) * cols, begin + threadIdx.x * V, end, again,
                                     [&](float value) { return __expf(value - shift) * scale; });
    }
  }
}
// [/window]

inline int window_chunks(int cols) { return ceil_div(cols, kWindowChunk); }

// Any rows; cols of at most as many chunks as the scratch has, BadInput for more. Made for rows that no block holds.
inline void softmax_window(Stream& stream, const float* x, float* y, int64_t rows, int cols, WindowScratch& scratch) {
  const int chunks = window_chunks(cols);
  if (chunks > scratch.chunks())
    throw BadInput("softmax_window: rows of " + std::to_string(cols) + " values; the scratch is for " +
                   std::to_string(int64_t(scratch.chunks()) * kWindowChunk) + " at most");
  const int length = ceil_div(ceil_div(cols, chunks), 4) * 4;  // chunks of the same size, which start at whole packs
  const int64_t most = scratch.chunks() / chunks;
  with_pack_width(x, y, cols, [&](auto width) {
    constexpr int V = decltype(width)::value;
    for (int64_t first = 0; first < rows; first += most) {
      const unsigned count = unsigned(std::min(most, rows - first));
      const unsigned blocks = std::min(unsigned(device().multiprocessors) * kWindowBlocks, count * chunks);
      // 0.3 MB, in the L2. A number of the launch in each word would save this, but the word is full.
      fill_bytes(stream, scratch.words.data(), 0, (1 + size_t(count) * chunks) * sizeof(unsigned long long));
      launch(softmax_window_kernel<V>, dim3(blocks), dim3(kWindowThreads), on(stream), x + first * cols,
             y + first * cols, scratch.words.data(), scratch.words.data() + 1, count, unsigned(cols), unsigned(chunks),
             unsigned(length), blocks + unsigned(chunks));
    }
  });
}
