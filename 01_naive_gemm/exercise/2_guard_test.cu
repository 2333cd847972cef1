// Test of exercise 01.2, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void outer_product(Stream& stream, const float* u, const float* v, float* y, int rows, int cols);

namespace {
void check_shape(int rows, int cols) {
  const auto a = random_integers(size_t(rows), 1), b = random_integers(size_t(cols), 2);
  DeviceBuffer<float> u(a), v(b), y(size_t(rows) * cols);
  Stream stream;
  outer_product(stream, u.data(), v.data(), y.data(), rows, cols);
  stream.synchronize();
  std::vector<double> want(y.size());
  for (size_t i = 0; i < want.size(); ++i) want[i] = a[i / cols] * b[i % cols];
  check_result(y, want, cols);
}
}  // namespace

TEST_CASE("01.2: whole blocks") { check_shape(32, 48); }
TEST_CASE("01.2: columns that do not fill a block") { check_shape(32, 17); }
TEST_CASE("01.2: rows that do not fill a block") { check_shape(21, 32); }
TEST_CASE("01.2: neither does, and a single element") {
  check_shape(45, 50);
  check_shape(1, 1);
}
