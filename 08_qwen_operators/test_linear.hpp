// What the tests of step 08 share: bfloat16 inputs, a linear layer in double, tolerances.
#pragma once
#include <vector>

#include "common/catch.hpp"
#include "common/random.hpp"
#include "common/verify.hpp"

// `count` bfloat16 values, uniform in [-scale, scale).
inline std::vector<bfloat16> random_bf16(size_t count, uint64_t seed, float scale = 1.f) {
  const std::vector<float> values = random_uniform(count, seed);
  std::vector<bfloat16> rounded(count);
  for (size_t i = 0; i < count; ++i) rounded[i] = __float2bfloat16(values[i] * scale);
  return rounded;
}

// A result in double with Σ|a·b|, from which the tolerance of a float sum follows.
struct Wanted {
  std::vector<double> value, magnitude;
};

// x Wᵀ of x [M, K] and W [N, K].
inline Wanted linear_in_double(const std::vector<double>& x, const std::vector<bfloat16>& W, int M, int N, int K) {
  Wanted wanted{std::vector<double>(size_t(M) * N), std::vector<double>(size_t(M) * N)};
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      double sum = 0, magnitude = 0;
      for (int k = 0; k < K; ++k) {
        const double product = x[size_t(m) * K + k] * to_double(W[size_t(n) * K + k]);
        sum += product;
        magnitude += std::fabs(product);
      }
      wanted.value[size_t(m) * N + n] = sum;
      wanted.magnitude[size_t(m) * N + n] = magnitude;
    }
  return wanted;
}
template <class T>
std::vector<double> as_double(const std::vector<T>& values) {
  std::vector<double> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = to_double(values[i]);
  return result;
}

// RMSNorm of each row in double, with the two roundings that the operator has by definition.
inline std::vector<double> rms_norm_in_double(const std::vector<float>& x, const std::vector<bfloat16>& weight,
                                              int rows, int columns, double eps, bool round_result = true) {
  std::vector<double> y(x.size());
  for (int r = 0; r < rows; ++r) {
    double squares = 0;
    for (int i = 0; i < columns; ++i) squares += double(x[size_t(r) * columns + i]) * x[size_t(r) * columns + i];
    const double scale = 1 / std::sqrt(squares / columns + eps);
    for (int i = 0; i < columns; ++i) {
      const float scaled = __bfloat162float(__float2bfloat16(float(x[size_t(r) * columns + i] * scale)));
      const double value = double(scaled) * to_double(weight[i]);
      y[size_t(r) * columns + i] = round_result ? to_double(__float2bfloat16(float(value))) : value;
    }
  }
  return y;
}

// Tolerance of element i for an output of type T. A float sum, rounded to bfloat16 where T is that. `extra` is relative
// to the magnitude: what inputs that were themselves computed may differ by.
template <class T>
auto linear_tolerance(const Wanted& wanted, int K, double extra = 0) {
  const double ulp = sizeof(T) == 2 ? kBfloat16Ulp : kFloatUlp;
  return [&wanted, K, extra, ulp](size_t i) {
    const double sum = dot_tolerance(wanted.magnitude[i], K) + extra * wanted.magnitude[i];
    return sum + ulp * (std::fabs(wanted.value[i]) + sum);
  };
}
