// Test of exercise 05.3, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void row_totals(Stream& stream, const float* x, float* out, int rows, int cols);

namespace {
void check_shape(int rows, int cols) {
  const auto in = random_integers(size_t(rows) * cols, 1);
  DeviceBuffer<float> x(in), out(static_cast<size_t>(rows));
  Stream stream;
  row_totals(stream, x.data(), out.data(), rows, cols);
  stream.synchronize();
  std::vector<double> want(static_cast<size_t>(rows), 0.0);
  for (size_t i = 0; i < in.size(); ++i) want[i / cols] += in[i];
  check_result(out, want, 1);
}
}  // namespace

TEST_CASE("05.3: one row") { check_shape(1, 200); }
TEST_CASE("05.3: rows shorter than a block") {
  check_shape(1, 1);
  check_shape(2, 40);
}
TEST_CASE("05.3: many rows a block") { check_shape(9, 1000); }
