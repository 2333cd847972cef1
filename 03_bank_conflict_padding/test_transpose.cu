// Every form of the transpose, for every pair of types it is used with.
#include "03_bank_conflict_padding/transpose.cuh"
#include "common/catch.hpp"
#include "common/random.hpp"
#include "common/thin_tests.hpp"
#include "common/verify.hpp"

namespace {

template <class T>
T from_float(float v) {
  if constexpr (std::is_same_v<T, float>)
    return v;
  else
    return __float2bfloat16(v);
}

template <class In, class Out>
using TransposeLauncher = void (*)(Stream&, const In*, Out*, int, int);

// Integers up to 100 are exact in bfloat16, so that any difference is a fault.
template <class In, class Out>
void check_transpose(TransposeLauncher<In, Out> launcher, int rows, int cols) {
  const auto values = random_integers(size_t(rows) * cols, 1000u * rows + cols, 100);
  std::vector<In> input;
  for (float v : values) input.push_back(from_float<In>(v));
  DeviceBuffer<In> in(input);
  DeviceBuffer<Out> out(input.size());
  Stream stream;
  launcher(stream, in.data(), out.data(), rows, cols);
  stream.synchronize();
  std::vector<float> want(values.size());
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) want[size_t(c) * rows + r] = values[size_t(r) * cols + c];
  const Check check = compare_exact(out.to_host(), want, size_t(rows));
  INFO("rows=" << rows << " cols=" << cols << ": " << check.text());
  REQUIRE(check.ok);
}

template <class In, class Out>
void check_transpose_shapes(TransposeLauncher<In, Out> launcher) {
  for (int rows : thinned<int>({1, 2, 31, 32, 33, 63, 64, 65, 127}))
    for (int cols : thinned<int>({1, 2, 31, 32, 33, 63, 64, 65, 101})) check_transpose(launcher, rows, cols);
}

}  // namespace

TEST_CASE("03 transpose, naive: every shape") {
  check_transpose_shapes<float, float>(transpose_naive);
  check_transpose_shapes<bfloat16, float>(transpose_naive);
}
TEST_CASE("03 transpose, tiled with conflicts: every shape") {
  check_transpose_shapes<float, float>(transpose_conflicted);
  check_transpose_shapes<bfloat16, float>(transpose_conflicted);
}
TEST_CASE("03 transpose, padded: every shape") {
  check_transpose_shapes<float, float>(transpose_padded);
  check_transpose_shapes<bfloat16, float>(transpose_padded);
}
TEST_CASE("03 transpose, swizzled: every shape") {
  check_transpose_shapes<float, float>(transpose_swizzled);
  check_transpose_shapes<bfloat16, float>(transpose_swizzled);
}
TEST_CASE("03 transpose, best: every shape and every pair of types") {
  check_transpose_shapes<float, float>(transpose);
  check_transpose_shapes<bfloat16, float>(transpose);
  check_transpose_shapes<float, bfloat16>(transpose);
  check_transpose_shapes<bfloat16, bfloat16>(transpose);
}
TEST_CASE("03 transpose: more rows than a grid's y could number") {
  check_transpose<float, float>(transpose, 65535 * 64 + 3, 1);
}
TEST_CASE("03 transpose: float to bfloat16 rounds to nearest even, and keeps NaN and infinity") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  DeviceBuffer<float> in(std::vector<float>{0x1.01p0f, 0x1.03p0f, inf, -inf, nan, -0.f});
  DeviceBuffer<bfloat16> out(6);
  Stream stream;
  transpose(stream, in.data(), out.data(), 2, 3);
  stream.synchronize();
  // two halfway cases: one goes down and one up, both to an even last bit
  const std::vector<float> want{0x1p0f, -inf, 0x1.04p0f, nan, inf, -0.f};
  const Check check = compare_exact(out.to_host(), want, 2);
  INFO(check.text());
  REQUIRE(check.ok);
}
