// Test of exercise 02.3, for stub, answer and wrong answers alike.
#include "common/gemm_test.hpp"
#include "common/lab/exercise.hpp"

void gemm_ragged(Stream& stream, const Gemm& p);

TEST_CASE("02.3: K of whole tiles") { check_gemm_exact(gemm_ragged, 20, 24, 32, 1); }
TEST_CASE("02.3: K less than a tile") {
  check_gemm_exact(gemm_ragged, 16, 16, 1, 2);
  check_gemm_exact(gemm_ragged, 16, 16, 15, 3);
}
TEST_CASE("02.3: K of whole tiles and a piece") {
  check_gemm_exact(gemm_ragged, 16, 16, 17, 4);
  check_gemm_exact(gemm_ragged, 37, 19, 45, 5);
}
TEST_CASE("02.3: NaN and infinity come through") { check_gemm_special_values(gemm_ragged); }
