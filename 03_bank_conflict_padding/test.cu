#include "03_bank_conflict_padding/padded_gemm.cuh"
#include "03_bank_conflict_padding/transpose.cuh"
#include "03_bank_conflict_padding/wavefronts.hpp"
#include "common/gemm_test.hpp"

TEST_CASE("03 conflicted: every shape, exact on integers") { check_gemm_shapes(gemm_conflicted, 128, 128, 8); }
TEST_CASE("03 +1: every shape, exact on integers") { check_gemm_shapes(gemm_padded_1, 128, 128, 8); }
TEST_CASE("03 +4: every shape, exact on integers") { check_gemm_shapes(gemm_padded_4, 128, 128, 8); }
TEST_CASE("03 swizzle: every shape, exact on integers") { check_gemm_shapes(gemm_swizzled, 128, 128, 8); }
TEST_CASE("03 every layout: NaN and infinity come through") {
  check_gemm_special_values(gemm_conflicted);
  check_gemm_special_values(gemm_padded_1);
  check_gemm_special_values(gemm_padded_4);
  check_gemm_special_values(gemm_swizzled);
}

namespace {
// Every element of a tile has a place of its own, inside the array.
template <class Layout>
void check_layout(int rows, int columns) {
  std::vector<int> used(Layout::kSize, 0);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) {
      REQUIRE(Layout::at(r, c) >= 0);
      REQUIRE(Layout::at(r, c) < Layout::kSize);
      REQUIRE(used[Layout::at(r, c)]++ == 0);
    }
}
}  // namespace

TEST_CASE("03 layouts: one place for each element") {
  check_layout<ConflictedA>(8, 128);
  check_layout<Padded1A>(8, 128);
  check_layout<Padded4A>(8, 128);
  check_layout<SwizzledA>(8, 128);
  check_layout<Swizzled<32, 32, 1>>(32, 32);
  check_layout<Padded<64, 64, 1>>(64, 64);
}

TEST_CASE("03 wavefronts: only the store of A conflicts; reading Bs[k][tx] along a row costs 1") {
  CHECK(gemm_wavefronts<ConflictedA>().store_a == 8);
  CHECK(gemm_wavefronts<Padded1A>().store_a == 4);
  CHECK(gemm_wavefronts<Padded4A>().store_a == 1);
  CHECK(gemm_wavefronts<SwizzledA>().store_a == 1);
  for (const GemmWavefronts& w : {gemm_wavefronts<ConflictedA>(), gemm_wavefronts<Padded1A>(),
                                  gemm_wavefronts<Padded4A>(), gemm_wavefronts<SwizzledA>()}) {
    CHECK(w.read_a == 1);
    CHECK(w.read_b == 1);
  }
  // the same read in the 32 × 32 tile of step 02, with and without the padding that is said to cure it
  CHECK(wavefronts(true, [](int tx) { return Plain<32, 32>::at(5, tx); }) == 1);
  CHECK(wavefronts(true, [](int tx) { return Padded<32, 32, 1>::at(5, tx); }) == 1);
}

TEST_CASE("03 wavefronts: the column read of the transpose") {
  CHECK(transpose_read_wavefronts<Plain<32, 32>>() == 32);
  CHECK(transpose_read_wavefronts<Padded<32, 32, 1>>() == 1);
  CHECK(transpose_read_wavefronts<Padded<32, 32, 4>>() == 4);  // right for A's store, not for a whole column
  CHECK(transpose_read_wavefronts<Swizzled<32, 32, 1>>() == 1);
  CHECK(transpose_store_wavefronts<Swizzled<32, 32, 1>>() == 1);
}

TEST_CASE("03 wavefronts: float4 needs rows of a multiple of four floats, and 36 of them for a column") {
  const auto column_of_float4 = [](int row) {
    const auto request = simt::warp_request(true, 16, [=](int lane) { return 4 * row * lane; });
    return simt::shared_cost(request).wavefronts;
  };
  CHECK(column_of_float4(32) == 32);
  CHECK(column_of_float4(36) == 4);
  CHECK(Padded1A::at(1, 0) % 4 != 0);  // row 1 starts in the middle of 16 bytes
  CHECK(Padded4A::at(1, 0) % 4 == 0);
  CHECK(SwizzledA::at(3, 5) == SwizzledA::at(3, 4) + 1);  // groups of four stay together
}

#if !ON_GPU
namespace {
// The tiled transpose without its barrier.
__global__ void transpose_missing_barrier(const float* in, float* out) {
  __shared__ float tile[32][33];
  for (int r = threadIdx.y; r < 32; r += 8) tile[r][threadIdx.x] = in[r * 32 + threadIdx.x];
  for (int c = threadIdx.y; c < 32; c += 8) out[c * 32 + threadIdx.x] = tile[threadIdx.x][c];
}
}  // namespace

TEST_CASE("03: without the barrier a transpose reads what other threads have not stored yet") {
  const auto values = random_integers(32 * 32, 1);
  DeviceBuffer<float> in(values), out(32 * 32);
  std::vector<float> want(32 * 32);
  for (int i = 0; i < 32 * 32; ++i) want[i % 32 * 32 + i / 32] = values[i];
  Stream stream;
  launch(transpose_missing_barrier, dim3(1), dim3(32, 8), on(stream), in.data(), out.data());
  CHECK(compare_exact(out.to_host(), want, 32).mismatches > 0);
  transpose_padded(stream, in.data(), out.data(), 32, 32);
  CHECK(compare_exact(out.to_host(), want, 32).mismatches == 0);
}
#endif
