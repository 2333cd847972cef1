// The GEMM that steps 01 to 04 share: C = A · B, row-major, fp32.
#pragma once
#include <vector>

#include "common/device.hpp"

struct Gemm {
  const float* A;  // [M, K]
  const float* B;  // [K, N]
  float* C;        // [M, N]
  int M, N, K;
  double flop() const { return 2.0 * M * N * K; }
  double least_bytes() const { return 4.0 * (double(M) * K + double(K) * N + double(M) * N); }
};

// Enqueues one GEMM; any M, N, K ≥ 1.
using GemmLauncher = void (*)(Stream&, const Gemm&);

// A grid has at most 65 535 blocks in y. Calls launch_slab(slab, blocks in y) for as many slabs of rows as that takes:
// one for every shape of the lessons.
template <class LaunchSlab>
void in_row_slabs(const Gemm& p, int rows_per_block, LaunchSlab launch_slab) {
  const int most = 65535 * rows_per_block;
  for (int row = 0; row < p.M; row += most) {
    const int rows = p.M - row < most ? p.M - row : most;
    launch_slab(Gemm{p.A + size_t(row) * p.K, p.B, p.C + size_t(row) * p.N, rows, p.N, p.K},
                static_cast<unsigned>(ceil_div(rows, rows_per_block)));
    if (p.M - row <= most) break;  // row + most may pass 2^31
  }
}

// Enqueues a plain kernel that sums in double: the reference for shapes too large for one CPU loop. `magnitude` gets
// Σ|a·b| of each element, from which the tolerance is derived.
void gemm_reference(Stream& stream, const Gemm& p,
                    double* want,        // [M, N]
                    double* magnitude);  // [M, N]
