// 05 · the softmax that later steps call: the best form for the shape
#pragma once
#include "05_online_softmax/l2_window.cuh"
#include "05_online_softmax/passes.cuh"
#include "05_online_softmax/row_on_chip.cuh"
#include "05_online_softmax/split_rows.cuh"

// What the forms with several blocks a row need; made before a graph is captured, one for each stream that runs at the
// same time.
struct SoftmaxScratch {
  SplitScratch split;
  WindowScratch window;
};

// Does the second read pay for being in the L2? One block a row reads what its shared memory cannot keep twice: a row that
// is longer by a quarter crosses the bus 2.2 times. The L2 window crosses it twice at 0.92 of a copy's speed. And the L2
// must hold the window, with as much again for what is being written.
inline bool window_pays(int cols) {
  const DeviceInfo& card = device();
  const size_t kept = card.shared_bytes_per_block - kSharedReserve;
  const size_t window = (size_t(card.multiprocessors) * kWindowBlocks + window_chunks(cols)) * kWindowChunk * 4;
  const bool fits = !card.gpu || 2 * window <= card.l2_bytes;
  return sizeof(float) * size_t(cols) > kept + kept / 4 && fits;
}

// y[r, c] = exp(x[r, c] − max of row r) / sum over the row, in float; x == y is allowed.
//   x, y     device, [rows, cols], contiguous; any rows ≥ 0, cols ≥ 1, also where rows × cols passes 2^31
//   scratch  lets several blocks work on a long row; without it one block takes a row
// A row of −inf alone gives zeros (a query that may attend to nothing adds nothing); a row that holds NaN or +inf gives
// NaN throughout.
inline void softmax_rows(Stream& stream, const float* x, float* y, int64_t rows, int cols,
                         SoftmaxScratch* scratch = nullptr) {
  if (cols <= kRegisterCols)
    softmax_registers(stream, x, y, rows, cols);
  else if (scratch && rows <= kSplitRows)
    softmax_split(stream, x, y, rows, cols, scratch->split);
  else if (scratch && window_pays(cols) && window_chunks(cols) <= scratch->window.chunks())
    softmax_window(stream, x, y, rows, cols, scratch->window);
  else
    softmax_shared(stream, x, y, rows, cols);
}
