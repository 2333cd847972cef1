#include "08_qwen_operators/attention_parts.cuh"
#include "08_qwen_operators/embedding.cuh"
#include "08_qwen_operators/split_k.cuh"
#include "08_qwen_operators/test_linear.hpp"
#include "08_qwen_operators/weight_pool.cuh"

namespace {

// Rows around a warp and a block, primes, widths with and without 16-byte rows.
const std::vector<std::pair<int, int>> kRows{{1, 1},  {1, 2},   {2, 31},  {3, 32},  {1, 33},  {5, 127},
                                             {2, 72}, {1, 257}, {4, 896}, {3, 128}, {2, 1153}};
// One bfloat16 step: a value on the edge between two may be rounded either way.
double bf16_step(double value) { return 2 * kBfloat16Ulp * std::fabs(value) + 1e-30; }

}  // namespace

TEST_CASE("08 rms_norm: every width, against double") {
  for (const auto& [rows, columns] : kRows) {
    const auto x = random_normal_with_outliers(size_t(rows) * columns, 1);
    const auto weight = random_bf16(columns, 2);
    DeviceBuffer<float> dx(x);
    DeviceBuffer<bfloat16> dw(weight), y(x.size());
    Stream stream;
    rms_norm(stream, dx.data(), dw.data(), y.data(), rows, columns, 1e-6f);
    stream.synchronize();
    const auto want = rms_norm_in_double(x, weight, rows, columns, 1e-6, false);
    const auto got = y.to_host();
    const Check check = compare(
        got, want, [&](size_t i) { return 1.5 * bf16_step(want[i]); }, columns);
    INFO(rows << "×" << columns << ": " << check.text());
    REQUIRE(check.ok);
    // in the middle of the bfloat16 grid nothing is left to chance: almost all elements are exact
    const auto rounded = rms_norm_in_double(x, weight, rows, columns, 1e-6);
    size_t different = 0;
    for (size_t i = 0; i < got.size(); ++i) different += to_double(got[i]) != rounded[i];
    REQUIRE(different <= got.size() / 100 + 1);
  }
}
TEST_CASE("08 rms_norm: a row of zeros gives zeros, and eps stands inside the root") {
  const std::vector<bfloat16> weight(40, __float2bfloat16(1.f));
  std::vector<float> x(80, 0.f);
  for (int i = 40; i < 80; ++i) x[i] = i % 2 ? 1e-3f : -1e-3f;  // mean square 1e-6 = eps: the factor is 1/√2 of 1000
  DeviceBuffer<float> dx(x);
  DeviceBuffer<bfloat16> dw(weight), y(80);
  Stream stream;
  rms_norm(stream, dx.data(), dw.data(), y.data(), 2, 40, 1e-6f);
  stream.synchronize();
  const auto got = y.to_host();
  for (int i = 0; i < 40; ++i) REQUIRE(to_double(got[i]) == 0);
  for (int i = 40; i < 80; ++i) REQUIRE(std::fabs(std::fabs(to_double(got[i])) - std::sqrt(0.5)) <= kBfloat16Ulp);
}
TEST_CASE("08 rms_norm: rows that start at any float take the scalar road") {
  const int columns = 64;
  const auto x = random_uniform(columns + 1, 1);
  const auto weight = random_bf16(columns, 2);
  DeviceBuffer<float> dx(x);
  DeviceBuffer<bfloat16> dw(weight), y(columns);
  Stream stream;
  rms_norm(stream, dx.data() + 1, dw.data(), y.data(), 1, columns, 1e-6f);
  stream.synchronize();
  const auto want = rms_norm_in_double({x.begin() + 1, x.end()}, weight, 1, columns, 1e-6, false);
  REQUIRE(compare(
              y.to_host(), want, [&](size_t i) { return 1.5 * bf16_step(want[i]); }, columns)
              .ok);
}
TEST_CASE("08 residual_add_rms_norm: the bits of its two halves") {
  for (const auto& [rows, columns] : kRows) {
    const size_t count = size_t(rows) * columns;
    const auto x = random_uniform(count, 1);
    const auto delta = random_bf16(count, 2), weight = random_bf16(columns, 3);
    DeviceBuffer<float> fused(x), separate(x);
    DeviceBuffer<bfloat16> dd(delta), dw(weight), y1(count), y2(count);
    Stream stream;
    residual_add_rms_norm(stream, fused.data(), dd.data(), dw.data(), y1.data(), rows, columns, 1e-6f);
    residual_add(stream, separate.data(), dd.data(), count);
    rms_norm(stream, separate.data(), dw.data(), y2.data(), rows, columns, 1e-6f);
    stream.synchronize();
    REQUIRE(compare_exact(fused.to_host(), as_double(separate.to_host()), columns).ok);
    REQUIRE(compare_exact(y1.to_host(), as_double(y2.to_host()), columns).ok);
    std::vector<double> want(count);
    for (size_t i = 0; i < count; ++i) want[i] = double(x[i]) + to_double(delta[i]);
    REQUIRE(compare(separate.to_host(), want, 2 * kFloatUlp, columns).ok);
  }
}
TEST_CASE("08 embedding: rows by id, and NaN for an id outside the vocabulary") {
  for (const int hidden : {1, 31, 256, 257}) {
    const int vocabulary = 11;
    const auto table = random_bf16(size_t(vocabulary) * hidden, 1);
    const std::vector<int> ids{3, 0, 10, 3, 11, -1};
    DeviceBuffer<bfloat16> dt(table);
    DeviceBuffer<int> di(ids);
    DeviceBuffer<float> residual(ids.size() * hidden);
    residual.upload(std::vector<float>(ids.size() * hidden, 1.f));
    Stream stream;
    embedding(stream, di.data(), dt.data(), residual.data(), int(ids.size()), vocabulary, hidden);
    stream.synchronize();
    const auto got = residual.to_host();
    for (size_t t = 0; t < ids.size(); ++t)
      for (int i = 0; i < hidden; ++i) {
        if (t < 4)
          REQUIRE(to_double(got[t * hidden + i]) == to_double(table[size_t(ids[t]) * hidden + i]));
        else
          REQUIRE(std::isnan(got[t * hidden + i]));
      }
  }
}
TEST_CASE("08 act_mul: SiLU(gate) · up, separate and side by side") {
  for (const auto& [rows, columns] : kRows) {
    const auto both = random_bf16(size_t(rows) * 2 * columns, 1, 8.f);
    DeviceBuffer<bfloat16> d(both), y(size_t(rows) * columns);
    Stream stream;
    act_mul(stream, d.data(), d.data() + columns, y.data(), rows, columns, 2 * columns);
    stream.synchronize();
    std::vector<double> want(size_t(rows) * columns);
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < columns; ++i) {
        const double g = to_double(both[(size_t(r) * 2) * columns + i]),
                     u = to_double(both[(size_t(r) * 2 + 1) * columns + i]);
        want[size_t(r) * columns + i] = g / (1 + std::exp(-g)) * u;
      }
    const Check check = compare(
        y.to_host(), want, [&](size_t i) { return (kBfloat16Ulp + 16 * kFloatUlp) * std::fabs(want[i]) + 1e-30; },
        columns);
    INFO(check.text());
    REQUIRE(check.ok);
  }
}
TEST_CASE("08 act_mul: very negative gates give 0, not NaN; more rows than a grid has in y") {
  const std::vector<bfloat16> gate{__float2bfloat16(-100.f), __float2bfloat16(-1e30f), __float2bfloat16(100.f)},
      up(3, __float2bfloat16(2.f));
  DeviceBuffer<bfloat16> dg(gate), du(up), y(3);
  Stream stream;
  act_mul(stream, dg.data(), du.data(), y.data(), 1, 3, 3);
  stream.synchronize();
  REQUIRE(std::fabs(to_double(y.to_host()[0])) < 1e-30);
  REQUIRE(to_double(y.to_host()[1]) == 0);
  REQUIRE(to_double(y.to_host()[2]) == 200);
  const int rows = 65537;
  const auto many = random_bf16(rows, 1);
  DeviceBuffer<bfloat16> d(many), out(rows);
  act_mul(stream, d.data(), d.data(), out.data(), rows, 1, 1);
  stream.synchronize();
  const double g = to_double(many[rows - 1]);
  REQUIRE(std::fabs(to_double(out.to_host()[rows - 1]) - g * g / (1 + std::exp(-g))) <= 0.01);
}
TEST_CASE("08 split-K: partial sums and atomics, every split, against double") {
  for (const auto& [N, K] :
       std::vector<std::pair<int, int>>{{1, 1}, {7, 8}, {9, 72}, {257, 33}, {16, 1152}, {3, 4864}}) {
    const auto x = random_bf16(K, 1), W = random_bf16(size_t(N) * K, 2);
    DeviceBuffer<bfloat16> dx(x), dW(W);
    const Wanted wanted = linear_in_double(as_double(x), W, 1, N, K);
    Stream stream;
    for (const int split : {1, 2, 4, 8, 16}) {
      DeviceBuffer<float> y(N), partial(size_t(split) * N);
      INFO("N=" << N << " K=" << K << " split " << split);
      gemv_split_k(stream, dx.data(), dW.data(), y.data(), partial.data(), N, K, split);
      stream.synchronize();
      const auto first = y.to_host();
      REQUIRE(compare(first, wanted.value, linear_tolerance<float>(wanted, K), N).ok);
      y.poison();
      gemv_split_k(stream, dx.data(), dW.data(), y.data(), partial.data(), N, K, split);
      stream.synchronize();
      REQUIRE(compare_exact(y.to_host(), as_double(first), N).ok);
      y.poison();
      gemv_split_k_atomic(stream, dx.data(), dW.data(), y.data(), N, K, split);
      stream.synchronize();
      REQUIRE(compare(y.to_host(), wanted.value, linear_tolerance<float>(wanted, K), N).ok);
      REQUIRE(split_k_bytes(split, N) == (split == 1 ? 0u : size_t(4) * split * N));
    }
  }
}
TEST_CASE("08 random weights: the device makes what the formula says, and a pool hands out its matrices in turn") {
  const WeightPool pool(7, 9, 5, 3);
  REQUIRE(pool.copies() >= 3);
  REQUIRE(pool.at(1) == pool.at(0) + 63);
  REQUIRE(pool.at(pool.copies()) == pool.at(0));
  DeviceBuffer<bfloat16> values(1000);
  Stream stream;
  fill_random_bf16(stream, values.data(), values.size(), 11, 2.f);
  stream.synchronize();
  const auto got = values.to_host();
  double sum = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(to_double(got[i]) == to_double(__float2bfloat16(2.f * hashed_uniform(11, i))));
    sum += to_double(got[i]);
  }
  REQUIRE(std::fabs(sum / 1000) < 6 * 2 / std::sqrt(3.0 * 1000));  // six deviations of the mean
}
