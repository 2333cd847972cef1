// 03 · bank conflicts: the register tile of step 02, with its tile of A laid out in four ways
//
// Against 02: nothing but the place of A's elements in shared memory. Storing a tile of A transposed is a column access:
//          8 neighbouring lanes hold 8 neighbouring k, and with rows of 128 floats all 8 fall into one bank.
// Predict: wavefronts of one store: 8 as in step 02; 4 with rows of 129; 1 with rows of 132, and they still start at
//          multiples of 16 bytes, which step 04 needs; 1 with an XOR swizzle, without a spare float. The reads cost 1
//          in all four: reading Bs[k][tx] along a row never was a conflict.
// Run: make step03     Look closer: make lab03 · make profile03
#pragma once
#include "03_bank_conflict_padding/tile_layout.hpp"
#include "common/gemm.hpp"
#include "common/launch.hpp"

struct PaddedGemm {
  static constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8, kThreads = 256;
  static_assert(BM / TM * (BN / TN) == kThreads, "the threads' tiles cover the block's tile");
  static_assert(BM * BK % kThreads == 0 && BK * BN % kThreads == 0, "every thread copies equally many floats");
};

// [padded]
// LayoutA says where element (k, row) of the tile of A lies.
template <class LayoutA>
__global__ void gemm_padded_kernel(const float* A,  // [M, K]
                                   const float* B,  // [K, N]
                                   float* C,        // [M, N]
                                   int M, int N, int K) {
  constexpr int BM = PaddedGemm::BM, BN = PaddedGemm::BN, BK = PaddedGemm::BK;
  constexpr int TM = PaddedGemm::TM, TN = PaddedGemm::TN, kThreads = PaddedGemm::kThreads;
  __shared__ float As[LayoutA::kSize], Bs[BK][BN];
  const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

  float sum[TM][TN] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
// [store of A]
#pragma unroll
    for (int i = 0; i < BM * BK / kThreads; ++i) {
      const int r = t / BK + i * (kThreads / BK), k = t % BK;
      As[LayoutA::at(k, r)] = row0 + r < M && k0 + k < K ? A[size_t(row0 + r) * K + k0 + k] : 0.f;
    }
// [/store of A]
#pragma unroll
    for (int i = 0; i < BK * BN / kThreads; ++i) {
      const int k = t / BN + i * (kThreads / BN), c = t % BN;
      Bs[k][c] = k0 + k < K && col0 + c < N ? B[size_t(k0 + k) * N + col0 + c] : 0.f;
    }
    __syncthreads();  // the tiles are whole before anyone reads them
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
      for (int i = 0; i < TM; ++i) a[i] = As[LayoutA::at(k, ty + 16 * i)];
      for (int j = 0; j < TN; ++j) b[j] = Bs[k][tx + 16 * j];
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];
    }
    __syncthreads();  // all have read them before they are overwritten
  }
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) {
      const int row = row0 + ty + 16 * i, col = col0 + tx + 16 * j;
      if (row < M && col < N) C[size_t(row) * N + col] = sum[i][j];
    }
}
// [/padded]

using ConflictedA = Plain<PaddedGemm::BK, PaddedGemm::BM>;
using Padded1A = Padded<PaddedGemm::BK, PaddedGemm::BM, 1>;
using Padded4A = Padded<PaddedGemm::BK, PaddedGemm::BM, 4>;
using SwizzledA = Swizzled<PaddedGemm::BK, PaddedGemm::BM, 4>;

template <class LayoutA>
void gemm_with_layout(Stream& stream, const Gemm& p) {
  in_row_slabs(p, PaddedGemm::BM, [&](const Gemm& s, unsigned blocks) {
    launch(gemm_padded_kernel<LayoutA>, dim3(ceil_div(s.N, PaddedGemm::BN), blocks), dim3(16, 16), on(stream), s.A, s.B,
           s.C, s.M, s.N, s.K);
  });
}

inline void gemm_conflicted(Stream& stream, const Gemm& p) { gemm_with_layout<ConflictedA>(stream, p); }
inline void gemm_padded_1(Stream& stream, const Gemm& p) { gemm_with_layout<Padded1A>(stream, p); }
inline void gemm_padded_4(Stream& stream, const Gemm& p) { gemm_with_layout<Padded4A>(stream, p); }
inline void gemm_swizzled(Stream& stream, const Gemm& p) { gemm_with_layout<SwizzledA>(stream, p); }
