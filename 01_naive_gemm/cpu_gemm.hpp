// 01 · the GEMM as a CPU program writes it: the loop that one GPU thread of this step runs for one element, run for all.
#pragma once
#include <vector>

#include "common/gemm.hpp"

// [cpu]
inline void gemm_cpu_loop(const float* A,  // [M, K]
                          const float* B,  // [K, N]
                          float* C,        // [M, N]
                          int M, int N, int K) {
  for (int row = 0; row < M; ++row)
    for (int col = 0; col < N; ++col) {
      float sum = 0.f;
      for (int k = 0; k < K; ++k) sum += A[size_t(row) * K + k] * B[size_t(k) * N + col];
      C[size_t(row) * N + col] = sum;
    }
}
// [/cpu]

// Copies A and B to the host, runs the loop on one core, and copies C back. Waits; the copies are part of its time.
inline void gemm_cpu(Stream& stream, const Gemm& p) {
  std::vector<float> a(size_t(p.M) * p.K), b(size_t(p.K) * p.N), c(size_t(p.M) * p.N);
  copy_bytes_to_host(stream, a.data(), p.A, a.size() * sizeof(float));
  copy_bytes_to_host(stream, b.data(), p.B, b.size() * sizeof(float));
  stream.synchronize();
  gemm_cpu_loop(a.data(), b.data(), c.data(), p.M, p.N, p.K);
  copy_bytes_to_device(stream, p.C, c.data(), c.size() * sizeof(float));
  stream.synchronize();
}
