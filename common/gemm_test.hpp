// The tests that every GEMM launcher of steps 01 to 04 has to pass, on both machines.
#pragma once
#include <vector>

#include "common/catch.hpp"
#include "common/gemm.hpp"
#include "common/random.hpp"
#include "common/thin_tests.hpp"
#include "common/verify.hpp"

// One GEMM on small integers, where float is exact, so that any difference at all is a fault.
inline void check_gemm_exact(GemmLauncher launcher, int M, int N, int K, uint64_t seed) {
  const auto a = random_integers(size_t(M) * K, seed), b = random_integers(size_t(K) * N, seed + 1);
  DeviceBuffer<float> A(a), B(b), C(size_t(M) * N);
  Stream stream;
  launcher(stream, Gemm{A.data(), B.data(), C.data(), M, N, K});
  stream.synchronize();
  std::vector<double> want(size_t(M) * N, 0.0);
  for (int i = 0; i < M; ++i)
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < N; ++j) want[size_t(i) * N + j] += double(a[size_t(i) * K + k]) * b[size_t(k) * N + j];
  const Check check = compare_exact(C.to_host(), want, size_t(N));
  INFO("M=" << M << " N=" << N << " K=" << K << ": " << check.text());
  REQUIRE(check.ok);
}

// Shapes around the tile sizes, primes, M≠N≠K, odd and even numbers of K tiles.
inline void check_gemm_shapes(GemmLauncher launcher, int tile_m, int tile_n, int tile_k) {
  const auto around = [](int tile) { return thinned(std::vector<int>{1, 2, tile - 1, tile, tile + 1}); };
  const std::vector<int> ms = around(tile_m), ns = around(tile_n), ks = around(tile_k);
  uint64_t seed = 1;
  for (int m : ms)
    for (int n : ns) check_gemm_exact(launcher, m, n, tile_k + 3, ++seed);
  for (int k : ks) check_gemm_exact(launcher, 5, 7, k, ++seed);
  check_gemm_exact(launcher, 37, 53, 71, ++seed);
  check_gemm_exact(launcher, 131, 67, 29, ++seed);
  for (int tiles = 2; tiles <= 5; ++tiles) {
    check_gemm_exact(launcher, 9, 11, tiles * tile_k, ++seed);
    check_gemm_exact(launcher, 9, 12, tiles * tile_k - 1, ++seed);
  }
}

// NaN and infinity have to come through as IEEE arithmetic says.
inline void check_gemm_special_values(GemmLauncher launcher) {
  const int M = 33, N = 35, K = 34;
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  auto a = random_uniform(size_t(M) * K, 7), b = random_uniform(size_t(K) * N, 8);
  a[3 * K + 5] = nan;   // row 3 of C becomes NaN
  a[7 * K + 33] = inf;  // row 7: ±inf by the sign of B's last row
  b[33 * N + 2] = 0.f;  // … and NaN where inf meets 0
  DeviceBuffer<float> A(a), B(b), C(size_t(M) * N);
  Stream stream;
  launcher(stream, Gemm{A.data(), B.data(), C.data(), M, N, K});
  stream.synchronize();
  std::vector<double> want(size_t(M) * N, 0.0);
  for (int i = 0; i < M; ++i)
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < N; ++j) want[size_t(i) * N + j] += double(a[size_t(i) * K + k]) * b[size_t(k) * N + j];
  const Check check = compare(C.to_host(), want, 1e-4, size_t(N));
  INFO(check.text());
  REQUIRE(check.ok);
}
