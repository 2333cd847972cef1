#include "01_naive_gemm/cpu_gemm.hpp"
#include "01_naive_gemm/naive_gemm.cuh"
#include "common/gemm_test.hpp"

TEST_CASE("01 CPU loop: every shape, exact on integers") { check_gemm_shapes(gemm_cpu, 8, 8, 8); }
TEST_CASE("01 CPU loop: NaN and infinity come through") { check_gemm_special_values(gemm_cpu); }
TEST_CASE("01 uncoalesced: every shape, exact on integers") { check_gemm_shapes(gemm_uncoalesced, 32, 8, 8); }
TEST_CASE("01 coalesced: every shape, exact on integers") { check_gemm_shapes(gemm_coalesced, 8, 32, 8); }
TEST_CASE("01 uncoalesced: NaN and infinity come through") { check_gemm_special_values(gemm_uncoalesced); }
TEST_CASE("01 coalesced: NaN and infinity come through") { check_gemm_special_values(gemm_coalesced); }
TEST_CASE("01 coalesced: more rows than one grid holds") { check_gemm_exact(gemm_coalesced, 65535 * 8 + 5, 1, 2, 3); }
TEST_CASE("01 uncoalesced: more columns than a grid has in y") {
  check_gemm_exact(gemm_uncoalesced, 1, 65535 * 8 + 5, 2, 3);
}
