// Test of exercise 02.1, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void distances(Stream& stream, const float* x, float* out, int n);

namespace {
void check_length(int n) {
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
}  // namespace

TEST_CASE("02.1: one tile") { check_length(128); }
TEST_CASE("02.1: several tiles") { check_length(512); }
TEST_CASE("02.1: a tile that is not full") {
  check_length(1);
  check_length(300);
}
