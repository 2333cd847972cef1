// Hopper's linear layers against double, on the executor and where a card has wgmma.
#include "08_qwen_operators/linear_sm90.cuh"
#include "08_qwen_operators/test_linear.hpp"

namespace {

bool absent() {
  if (!device().has_wgmma) SUCCEED("needs compute capability 9.0 and code for sm_90a");
  return !device().has_wgmma;
}

template <class Tile>
struct With {
  int split = 1, blocks = 3;  // few, so that a block takes several tiles of y
  template <LinearEnd END = LinearEnd::kStore, class Out>
  void operator()(Stream& stream, const LinearArguments<Out>& p) const {
    REQUIRE(linear_sm90_fits<END>(p));
    launch_linear_sm90<Tile, END>(stream, p, false, split, blocks);
    stream.synchronize();
  }
};

// y against double, where x and W stand among NaN, which a read beyond their ends would bring in.
template <class Out, class Tile>
void check(const With<Tile>& run, int M, int N, int K, bool with_bias = false, bool add = false) {
  INFO("M=" << M << " N=" << N << " K=" << K << " BN=" << Tile::BN << " split=" << run.split);
  const auto x = random_bf16(size_t(M) * K, 1), W = random_bf16(size_t(N) * K, 2), bias = random_bf16(N, 3);
  const auto among_nan = [](std::vector<bfloat16> values) {
    values.insert(values.end(), 512, __float2bfloat16(NAN));
    return DeviceBuffer<bfloat16>(values);
  };
  const auto dx = among_nan(x), dW = among_nan(W), db = among_nan(bias);
  const size_t outputs = size_t(M) * N;
  const std::vector<float> before = random_uniform(outputs, 4);
  DeviceBuffer<Out> y(outputs * run.split + 64);
  if constexpr (sizeof(Out) == 4)
    if (add) y.upload(before);
  Stream stream;
  run(stream, LinearArguments<Out>{dx.data(), dW.data(), with_bias ? db.data() : nullptr, y.data(), M, N, K, add});
  Wanted wanted = linear_in_double(as_double(x), W, M, N, K);
  for (size_t i = 0; i < outputs; ++i) {
    const double term = (with_bias ? to_double(bias[i % N]) : 0) + (add ? before[i] : 0);
    wanted.value[i] += term;
    wanted.magnitude[i] += std::fabs(term);
  }
  auto got = y.to_host();
  for (size_t i = outputs * run.split; i < got.size(); ++i) REQUIRE(std::isnan(to_double(got[i])));  // nothing behind y
  for (size_t i = outputs; i < outputs * run.split; ++i)
    if constexpr (sizeof(Out) == 4) got[i % outputs] += got[i];
  got.resize(outputs);
  const Check result = compare(got, wanted.value, linear_tolerance<Out>(wanted, K), N);
  INFO(result.text());
  REQUIRE(result.ok);
}

// Ragged in every dimension; fewer and more tiles of K than the ring has places; fewer and more tiles of y than blocks.
template <class Tile>
void check_shapes() {
  for (const int M : {1, 127, 128, 129}) check<bfloat16>(With<Tile>{}, M, 72, 72, M % 2 == 0);
  for (const int N : {8, Tile::BN - 8, Tile::BN, Tile::BN + 8}) check<bfloat16>(With<Tile>{}, 3, N, 40);
  for (const int K : {8, 64, 64 * Tile::STAGES, 64 * Tile::STAGES + 200}) check<bfloat16>(With<Tile>{}, 70, 16, K);
  check<bfloat16>(With<Tile>{1, 2}, 256 + 44, 2 * Tile::BN + 24, 136, true);  // 9 tiles for 2 blocks
}

template <class Tile>
void check_swiglu(int M, int columns, int K) {
  INFO("M=" << M << " columns=" << columns << " K=" << K << " BN=" << Tile::BN);
  DeviceBuffer<bfloat16> x(random_bf16(size_t(M) * K, 1)), W(random_bf16(size_t(2 * columns) * K, 2));
  DeviceBuffer<bfloat16> gate_up(size_t(M) * 2 * columns), want(size_t(M) * columns), got(want.size());
  Stream stream;
  const With<Tile> run;
  run(stream, LinearArguments<bfloat16>{x.data(), W.data(), nullptr, gate_up.data(), M, 2 * columns, K, false});
  act_mul(stream, gate_up.data(), gate_up.data() + columns, want.data(), M, columns, 2 * int64_t(columns));
  run.template operator()<LinearEnd::kSwiglu>(
      stream, LinearArguments<bfloat16>{x.data(), W.data(), nullptr, got.data(), M, 2 * columns, K, false});
  const auto a = want.to_host(), b = got.to_host();
  for (const bfloat16 value : a) REQUIRE_FALSE(std::isnan(to_double(value)));
  REQUIRE(std::memcmp(a.data(), b.data(), a.size() * sizeof(bfloat16)) == 0);
}

}  // namespace

TEST_CASE("08 linear_sm90: 128×256 tile, ragged shapes, several tiles a block") {
  if (!absent()) check_shapes<LinearTileSm90x256>();
}
TEST_CASE("08 linear_sm90: 128×128 tile, ragged shapes, several tiles a block") {
  if (!absent()) check_shapes<LinearTileSm90x128>();
}
TEST_CASE("08 linear_sm90: 128×64 tile, ragged shapes, several tiles a block") {
  if (!absent()) check_shapes<LinearTileSm90x64>();
}
TEST_CASE("08 linear_sm90: integers are exact") {
  if (absent()) return;
  const int M = 130, N = 264, K = 200;
  std::vector<bfloat16> x(size_t(M) * K), W(size_t(N) * K);
  for (size_t i = 0; i < x.size(); ++i) x[i] = __float2bfloat16(float(int(i * 7919 % 15) - 7));
  for (size_t i = 0; i < W.size(); ++i) W[i] = __float2bfloat16(float(int(i * 104729 % 13) - 6));
  DeviceBuffer<bfloat16> dx(x), dW(W);
  DeviceBuffer<float> y(size_t(M) * N);
  Stream stream;
  With<LinearTileSm90x256>{}(stream, LinearArguments<float>{dx.data(), dW.data(), nullptr, y.data(), M, N, K, false});
  const Wanted wanted = linear_in_double(as_double(x), W, M, N, K);
  const auto got = y.to_host();
  for (size_t i = 0; i < got.size(); ++i) REQUIRE(double(got[i]) == wanted.value[i]);
}
TEST_CASE("08 linear_sm90: float output, added to, and K in pieces") {
  if (absent()) return;
  check<float>(With<LinearTileSm90x128>{}, 129, 136, 72, true, true);
  check<float>(With<LinearTileSm90x256>{}, 3, 264, 136);
  check<float>(With<LinearTileSm90x64>{3}, 130, 72, 64 * 7 + 8);
  check<float>(With<LinearTileSm90x128>{2, 5}, 200, 264, 64 * 2);
  Stream stream;
  CHECK_THROWS_AS(launch_linear_sm90<LinearTileSm90x128>(
                      stream, LinearArguments<float>{nullptr, nullptr, nullptr, nullptr, 1, 8, 64, false}, false, 2),
                  BadInput);
}
TEST_CASE("08 linear_sm90: SiLU(gate) · up has the bits of linear and act_mul") {
  if (absent()) return;
  for (const int columns : {8, 56, 64, 72, 136}) check_swiglu<LinearTileSm90x128>(3, columns, 72);
  check_swiglu<LinearTileSm90x256>(130, 200, 136);
}
TEST_CASE("08 linear_sm90: what the copy engine does not take, and every plan") {
  alignas(16) const bfloat16 some[16]{};
  const auto fits = [&](const bfloat16* W, int N, int K) {
    return linear_sm90_fits(LinearArguments<float>{some, W, nullptr, nullptr, 1, N, K, false});
  };
  CHECK(fits(some, 8, 64) == device().has_wgmma);
  CHECK_FALSE(fits(some + 1, 8, 64));
  CHECK_FALSE(fits(some, 8, 60));
  CHECK_FALSE(fits(some, 4, 64));
  for (const int M : {1, 127, 256, 2048})
    for (const int N : {8, 1024, 1536, 9728})
      for (const int K : {8, 1024, 4864})
        for (const int most : {1, 8}) {
          const LinearPlan plan = linear_sm90_plan(M, N, K, most);
          CHECK((plan.split >= 1 && plan.split <= most && plan.split <= ceil_div(K, 64)));
          CHECK((plan.BN == 64 || plan.BN == 128 || plan.BN == 256));
          CHECK(linear_sm90_plan<LinearEnd::kSwiglu>(M, N, K, most).BN >= 128);
        }
}
