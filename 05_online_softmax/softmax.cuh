// 05 · the softmax that later steps call: the best form for the shape
#pragma once
#include "05_online_softmax/passes.cuh"
#include "05_online_softmax/row_on_chip.cuh"
#include "05_online_softmax/split_rows.cuh"

// y[r, c] = exp(x[r, c] − max of row r) / sum over the row, in float; x == y is allowed.
//   x, y     device, [rows, cols], contiguous; any rows ≥ 0, cols ≥ 1, also where rows × cols passes 2^31
//   scratch  lets a few long rows be spread over many blocks; without it one block takes a row
// A row of −inf alone gives zeros (a query that may attend to nothing adds nothing); a row that holds NaN or +inf gives
// NaN throughout.
inline void softmax_rows(Stream& stream, const float* x, float* y, int64_t rows, int cols,
                         SoftmaxScratch* scratch = nullptr) {
  if (cols <= kRegisterCols)
    softmax_registers(stream, x, y, rows, cols);
  else if (scratch && rows <= kSplitRows)
    softmax_split(stream, x, y, rows, cols, *scratch);
  else
    softmax_shared(stream, x, y, rows, cols);
}
