// 04 · cp.async copies of the tiles of A and B: straight from global to shared memory, four floats at a time where rows of
// B allow it. A is transposed on the way and therefore copied float by float; it may start anywhere.
#pragma once
#include <string>

#include "common/gemm.hpp"
#include "common/ptx.hpp"

// Copies the tiles of A and B of one block, one k tile after the other; what lies outside the matrices becomes zero.
// T: sizes BM, BN, BK, kThreads, and kRowOfA, the length of a row of A's tile. VECTOR: rows of B start at multiples of 16
// bytes, so that four floats move at once.
template <class T, bool VECTOR>
class TileCopy {
 public:
  __device__ __forceinline__ TileCopy(const float* A,  // [M, K]
                                      const float* B,  // [K, N]
                                      int M, int N, int K, int row0, int col0)
      : TileCopy(A, B, M, N, K, row0, col0, 0, K) {}
  // The same for columns k_begin … k_end of A and rows of B; the others count as outside.
  __device__ __forceinline__ TileCopy(const float* A, const float* B, int M, int N, int K, int row0, int col0,
                                      int k_begin, int k_end)
      : a_(A + size_t(row0 + threadIdx.x / 8) * K + k_begin + threadIdx.x % 8),
        b_(B + (k_begin + size_t(threadIdx.x * kWidth / T::BN)) * N + col0 + threadIdx.x * kWidth % T::BN),
        a_step_(size_t(kRowsOfA) * K),
        b_step_(size_t(kRowsOfB) * N),
        rows_left_(M - row0 - int(threadIdx.x / 8)),
        k_left_(k_end - k_begin),
        column_valid_(col0 + int(threadIdx.x) * kWidth % T::BN < N) {}

  // Starts the copies of the next k tile.
  __device__ __forceinline__ void start(float* stage) {  // A [BK, BM + 4], then B [BK, BN]
    const int t = threadIdx.x;
#pragma unroll
    for (int i = 0; i < T::BM / kRowsOfA; ++i)
#pragma unroll
      for (int j = 0; j < T::BK; j += 8)
        cp_async_4(stage + (t % 8 + j) * T::kRowOfA + t / 8 + i * kRowsOfA, a_ + i * a_step_ + j,
                   i * kRowsOfA < rows_left_ && t % 8 + j < k_left_);
    float* tile_b = stage + T::BK * T::kRowOfA + t * kWidth;
#pragma unroll
    for (int i = 0; i < T::BK / kRowsOfB; ++i) {
      const bool valid = column_valid_ && t * kWidth / T::BN + i * kRowsOfB < k_left_;
      if constexpr (VECTOR)
        cp_async_16(tile_b + i * kRowsOfB * T::BN, b_ + i * b_step_, valid);
      else
        cp_async_4(tile_b + i * kRowsOfB * T::BN, b_ + i * b_step_, valid);
    }
    cp_async_commit();
    a_ += T::BK;
    b_ += b_step_ * (T::BK / kRowsOfB);
    k_left_ -= T::BK;
  }

 private:
  static constexpr int kWidth = VECTOR ? 4 : 1;                  // floats a copy of B moves
  static constexpr int kRowsOfA = T::kThreads / 8;               // rows of A that the block copies at once
  static constexpr int kRowsOfB = T::kThreads * kWidth / T::BN;  // rows of B, likewise
  static_assert(T::BM % kRowsOfA == 0, "the copy of A leaves no thread with part of its rows");
  static_assert(kRowsOfB * T::BN == T::kThreads * kWidth && T::BK % kRowsOfB == 0, "likewise for whole rows of B");
  const float *a_, *b_;  // this thread's first element of the next tile
  size_t a_step_, b_step_;
  int rows_left_, k_left_;
  bool column_valid_;
};

// Rows of B and C start at multiples of 16 bytes and hold whole groups of four floats.
inline bool rows_of_B_aligned(const Gemm& p) {
  return p.N % 4 == 0 && (reinterpret_cast<uintptr_t>(p.B) | reinterpret_cast<uintptr_t>(p.C)) % 16 == 0;
}
inline std::string copy_path(const Gemm& p) {
  return rows_of_B_aligned(p) ? "16-byte path" : "4-byte path: a row of B or C starts between multiples of 16 bytes";
}
