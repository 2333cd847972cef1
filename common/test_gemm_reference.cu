#include "common/gemm_test.hpp"

TEST_CASE("the double reference kernel agrees with the plain loop") {
  const int M = 19, N = 41, K = 37;
  const auto a = random_uniform(M * K, 1), b = random_uniform(K * N, 2);
  DeviceBuffer<float> A(a), B(b);
  DeviceBuffer<double> want(M * N), magnitude(M * N);
  Stream stream;
  gemm_reference(stream, Gemm{A.data(), B.data(), nullptr, M, N, K}, want.data(), magnitude.data());
  stream.synchronize();
  const auto got = want.to_host(), size = magnitude.to_host();
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      double sum = 0, absolute = 0;
      for (int k = 0; k < K; ++k) {
        sum += double(a[i * K + k]) * b[k * N + j];
        absolute += std::fabs(double(a[i * K + k]) * b[k * N + j]);
      }
      CHECK(got[i * N + j] == Approx(sum).margin(1e-13));
      CHECK(size[i * N + j] == Approx(absolute).margin(1e-13));
    }
}
