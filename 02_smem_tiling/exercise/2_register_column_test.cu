// Test of exercise 02.2, for stub, answer and wrong answers alike.
#include "common/gemm_test.hpp"
#include "common/lab/exercise.hpp"

void gemm_column(Stream& stream, const Gemm& p);

TEST_CASE("02.2: the product is right") {
  check_gemm_exact(gemm_column, 32, 32, 32, 1);
  check_gemm_exact(gemm_column, 64, 96, 128, 2);
}

#if !ON_GPU
TEST_CASE("02.2: at most 1.25 reads of shared memory for a multiply-add") {
  DeviceBuffer<float> a(random_uniform(64 * 64, 3)), b(random_uniform(64 * 64, 4)), c(64 * 64);
  const Seen seen = seen_by_lab([&](Stream& stream) {
    gemm_column(stream, Gemm{a.data(), b.data(), c.data(), 64, 64, 64});
  });
  const double multiply_adds = 64. * 64 * 64 / 32;  // of warps
  CHECK(double(seen.loads(simt::Space::shared).requests) / multiply_adds <= 1.25);
}
#endif
