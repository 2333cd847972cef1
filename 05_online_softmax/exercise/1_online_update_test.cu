// Test of exercise 05.1, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void log_sum_exp(Stream& stream, const float* x, float* out, int rows, int cols);

namespace {
void check_row(const std::vector<float>& row) {
  DeviceBuffer<float> x(row), out(1);
  Stream stream;
  log_sum_exp(stream, x.data(), out.data(), 1, int(row.size()));
  stream.synchronize();
  double sum = 0;  // the values are small enough for that in double
  for (const float v : row) sum += std::exp(double(v));
  check_result(out, {std::log(sum)}, 1, 1e-4);
}
}  // namespace

TEST_CASE("05.1: values in any order") { check_row(random_normal_with_outliers(1000, 1)); }
TEST_CASE("05.1: the largest value first, and last") {
  auto row = random_uniform(320, 2);
  for (size_t i = 0; i < row.size(); ++i) row[i] += 0.02f * float(i);
  check_row(row);
  check_row({row.rbegin(), row.rend()});
}
TEST_CASE("05.1: values whose exp is more than a float holds") {
  auto row = random_uniform(320, 3);
  for (size_t i = 0; i < row.size(); ++i) row[i] += float(i);
  check_row(row);
}

#if !ON_GPU
TEST_CASE("05.1: the row is read once") {
  DeviceBuffer<float> x(random_uniform(640, 4)), out(1);
  const Seen seen = seen_by_lab([&](Stream& stream) { log_sum_exp(stream, x.data(), out.data(), 1, 640); });
  CHECK(seen.loads(simt::Space::global).lanes == 640);
}
#endif
