// The check that the exercises with out[i] = Σ |x[i] − x[j]| share (02.1, 04.2, 04.3).
#pragma once
#include "common/lab/exercise.hpp"

inline void check_distances(void (*distances)(Stream&, const float* x, float* out, int n), int n) {
  const auto in = random_integers(size_t(n), 1, 50);
  DeviceBuffer<float> x(in), out(in.size());
  Stream stream;
  distances(stream, x.data(), out.data(), n);
  stream.synchronize();
  std::vector<double> want(in.size(), 0.0);
  for (size_t i = 0; i < in.size(); ++i)
    for (const float other : in) want[i] += std::fabs(double(in[i]) - other);
  check_result(out, want, n);
}
