// Test of exercise 05.2, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void softmax_rows(Stream& stream, const float* x, float* y, int rows, int cols);

namespace {
constexpr int kCols = 70;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void check_rows(const std::vector<float>& in, const std::vector<double>& want) {
  DeviceBuffer<float> x(in), y(in.size());
  Stream stream;
  softmax_rows(stream, x.data(), y.data(), int(in.size()) / kCols, kCols);
  stream.synchronize();
  check_result(y, want, kCols, 1e-6);
}
std::vector<double> softmax(const std::vector<float>& row) {
  std::vector<double> want(row.begin(), row.end());
  double sum = 0;
  for (double& v : want) sum += v = std::exp(v);
  for (double& v : want) v /= sum;
  return want;
}
}  // namespace

TEST_CASE("05.2: an ordinary row, and one with some −∞") {
  auto row = random_uniform(kCols, 1);
  check_rows(row, softmax(row));
  for (int c = 20; c < kCols; ++c) row[c] = -INFINITY;
  check_rows(row, softmax(row));
}
TEST_CASE("05.2: nothing but −∞ gives 0") {
  check_rows(std::vector<float>(kCols, -INFINITY), std::vector<double>(kCols, 0.0));
}
TEST_CASE("05.2: NaN stays NaN") {
  auto row = random_uniform(kCols, 2);
  row[33] = NAN;
  check_rows(row, std::vector<double>(kCols, kNan));
}
