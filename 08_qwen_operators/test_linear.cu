#include "08_qwen_operators/linear_mma.cuh"
#include "08_qwen_operators/test_linear.hpp"

namespace {

template <class Out>
using Run = std::function<void(Stream&, const LinearArguments<Out>&)>;

// One linear layer with random values against double; a rerun has to give the same bits.
template <class Out>
void check_linear(const Run<Out>& run, int M, int N, int K, bool with_bias, bool add, size_t shift = 0) {
  const auto x = random_bf16(size_t(M) * K, 1), W = random_bf16(size_t(N) * K, 2), bias = random_bf16(N, 3);
  std::vector<bfloat16> shifted(shift);
  shifted.insert(shifted.end(), W.begin(), W.end());
  DeviceBuffer<bfloat16> dx(x), dW(shifted), db(bias);
  DeviceBuffer<Out> y(size_t(M) * N);
  std::vector<Out> before;
  if constexpr (sizeof(Out) == 4) before = random_uniform(size_t(M) * N, 4);
  Stream stream;
  const auto once = [&] {
    if (add)
      y.upload(before);
    else
      y.poison();
    run(stream, {dx.data(), dW.data() + shift, with_bias ? db.data() : nullptr, y.data(), M, N, K, add});
    stream.synchronize();
    return y.to_host();
  };
  const auto got = once();
  Wanted wanted = linear_in_double(as_double(x), W, M, N, K);
  for (size_t i = 0; i < wanted.value.size(); ++i) {
    const double term = (with_bias ? to_double(bias[i % N]) : 0) + (add ? to_double(before[i]) : 0);
    wanted.value[i] += term;
    wanted.magnitude[i] += std::fabs(term);
  }
  const Check check = compare(got, wanted.value, linear_tolerance<Out>(wanted, K), N);
  INFO("M=" << M << " N=" << N << " K=" << K << ": " << check.text());
  REQUIRE(check.ok);
  const auto again = once();
  REQUIRE(std::memcmp(got.data(), again.data(), got.size() * sizeof(Out)) == 0);
}

template <class Tile, class Out>
Run<Out> with_tile() {
  return [](Stream& stream, const LinearArguments<Out>& p) { launch_linear_mma<Tile>(stream, p, false); };
}

// Edges of the tile in each dimension, one to five tiles of K, K with and without 16-byte rows.
template <class Tile>
void check_tile() {
  if (!device().has_bf16_mma) return;
  const int BM = Tile::BM, BN = Tile::BN;
  for (int m : {1, 2, BM - 1, BM, BM + 1}) check_linear<float>(with_tile<Tile, float>(), m, 9, 72, false, false);
  for (int n : {1, 2, BN - 1, BN, BN + 1}) check_linear<bfloat16>(with_tile<Tile, bfloat16>(), 5, n, 40, true, false);
  for (int k : {1, 2, 63, 64, 65, 128, 136, 192, 200, 256, 320})
    check_linear<float>(with_tile<Tile, float>(), 3, 7, k, false, k % 2 == 0);
  check_linear<bfloat16>(with_tile<Tile, bfloat16>(), 2 * BM + 3, BN + 5, 71, true, false);
}

}  // namespace

TEST_CASE("08 linear: 128×128 tile, edges and odd K") { check_tile<LinearTileLarge>(); }
TEST_CASE("08 linear: 64×64 tile, edges and odd K") { check_tile<LinearTileMiddle>(); }
TEST_CASE("08 linear: 16×64 tile, edges and odd K") { check_tile<LinearTileSmall>(); }

TEST_CASE("08 linear: M from 1 to 17, N = 257, K = 72, 200, 896, 1152") {
  for (int M = 1; M <= 17; ++M)
    check_linear<float>([](Stream& s, const LinearArguments<float>& p) { linear(s, p.x, p.W, p.y, p.M, p.N, p.K); }, M,
                        37, 72, false, false);
  const auto run = [](Stream& s, const LinearArguments<bfloat16>& p) {
    linear(s, p.x, p.W, p.y, p.M, p.N, p.K, p.bias);
  };
  check_linear<bfloat16>(run, 17, 257, 200, true, false);
  check_linear<bfloat16>(run, 3, 41, 896, true, false);
  check_linear<bfloat16>(run, 2, 31, 1152, false, false);
}
TEST_CASE("08 linear_add: the residual grows by the product") {
  const Run<float> run = [](Stream& s, const LinearArguments<float>& p) {
    linear_add(s, p.x, p.W, p.y, p.M, p.N, p.K);
  };
  check_linear<float>(run, 1, 1, 1, false, true);
  check_linear<float>(run, 19, 67, 96, false, true);
  check_linear<float>(run, 70, 33, 33, false, true);
}
TEST_CASE("08 linear: matrices that start at any element take the guarded copy") {
  const Run<float> run = [](Stream& s, const LinearArguments<float>& p) { linear(s, p.x, p.W, p.y, p.M, p.N, p.K); };
  check_linear<float>(run, 5, 9, 64, false, false, 1);
  check_linear<float>(run, 70, 9, 64, false, false, 4);
}
TEST_CASE("08 linear without tensor cores: every edge") {
  const Run<float> run = [](Stream& s, const LinearArguments<float>& p) { launch_linear_simt(s, p, false); };
  for (int m : {1, 2, 63, 64, 65}) check_linear<float>(run, m, 5, 17, false, true);
  for (int n : {1, 2, 63, 64, 65}) check_linear<float>(run, 3, n, 16, true, false);
  for (int k : {1, 15, 16, 33}) check_linear<float>(run, 67, 131, k, false, false);
  check_linear<bfloat16>([](Stream& s, const LinearArguments<bfloat16>& p) { launch_linear_simt(s, p, false); }, 66, 71,
                         29, true, false);
}
TEST_CASE("08 linear_simple: one thread an output") {
  const Run<float> run = [](Stream& s, const LinearArguments<float>& p) {
    linear_simple(s, p.x, p.W, p.y, p.M, p.N, p.K, p.bias);
  };
  check_linear<float>(run, 1, 1, 1, true, false);
  check_linear<float>(run, 17, 31, 72, true, false);
  check_linear<bfloat16>(
      [](Stream& s, const LinearArguments<bfloat16>& p) { linear_simple(s, p.x, p.W, p.y, p.M, p.N, p.K); }, 1, 257, 33,
      false, false);
}
TEST_CASE("08 linear: tiles are numbered once each, in bands") {
  // every output is written although the last band is shorter than 8 tiles
  const Run<float> run = [](Stream& s, const LinearArguments<float>& p) {
    launch_linear_mma<LinearTileSmall>(s, p, false);
  };
  if (device().has_bf16_mma) check_linear<float>(run, 16 * 11 + 1, 64 * 2 + 1, 8, false, false);
}
