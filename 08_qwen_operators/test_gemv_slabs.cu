// The decode linear layer at every height of a slab and with K in several chunks: what the launchers choose depends on
// the card, so that one machine alone would run only some of these forms.
#include "08_qwen_operators/gemv.cuh"
#include "08_qwen_operators/test_linear.hpp"

namespace {

constexpr int kOutputs = 37;  // cut off in slabs of 8, 16 and 32 rows

std::vector<bfloat16> integers(size_t count, uint64_t seed) {
  std::vector<bfloat16> rounded(count);
  const std::vector<float> values = random_integers(count, seed);
  for (size_t i = 0; i < count; ++i) rounded[i] = __float2bfloat16(values[i]);
  return rounded;
}

template <class Input, class Output>
void launch_slabs(Stream& stream, const GemvShape& s, const Input& in, const Output& out, bool tensor) {
  const int warps = warps_for_row(s.K);
  launch(tensor ? gemv_kernel<Input, Output, true> : gemv_kernel<Input, Output, false>,
         dim3(ceil_div(s.outputs, Output::kPaired ? s.rows / 2 : s.rows)), dim3(32 * warps),
         on(stream).smem(s.shared_bytes(warps)), s, in, out);
  stream.synchronize();
}

// Calls check(rows, chunk, K, with tensor cores): K of one chunk and of several, the last one whole and cut off, with and
// without 16-byte rows.
template <class F>
void every_form(int least_rows, F check) {
  for (int rows = least_rows; rows <= kGemvMostRows; rows *= 2)
    for (int K : {64, 72, 200, 201})
      for (int chunk : {32, 64, 96, 224})
        for (bool tensor : {false, true})
          if (!tensor || device().has_bf16_mma) check(rows, chunk, K, tensor);
}

}  // namespace

TEST_CASE("08 gemv: every height of a slab, K in chunks, exact on integers") {
  every_form(8, [](int rows, int chunk, int K, bool tensor) {
    const auto x = integers(K, 1), W = integers(size_t(kOutputs) * K, 2);
    DeviceBuffer<bfloat16> dx(x), dW(W);
    DeviceBuffer<float> y(kOutputs);
    Stream stream;
    launch_slabs(stream, {dW.data(), kOutputs, K, rows, chunk, K % 8 == 0}, FromBfloat16{dx.data()},
                 StoreOutput<float>{{}, y.data(), nullptr}, tensor);
    const Check check = compare_exact(y.to_host(), linear_in_double(as_double(x), W, 1, kOutputs, K).value, kOutputs);
    INFO(rows << " rows, chunks of " << chunk << ", K=" << K << (tensor ? ", mma: " : ": ") << check.text());
    REQUIRE(check.ok);
  });
}
TEST_CASE("08 norm_gemv: every height of a slab, K in chunks") {
  every_form(8, [](int rows, int chunk, int K, bool tensor) {
    const auto residual = random_normal_with_outliers(K, 3);
    const auto norm = random_bf16(K, 4), W = random_bf16(size_t(kOutputs) * K, 5);
    DeviceBuffer<float> dr(residual), y(kOutputs);
    DeviceBuffer<bfloat16> dn(norm), dW(W), x(K);
    Stream stream;
    rms_norm(stream, dr.data(), dn.data(), x.data(), 1, K, 1e-6f);  // the bits that the fused norm has to find
    launch_slabs(stream, {dW.data(), kOutputs, K, rows, chunk, K % 8 == 0}, FromResidual{dr.data(), dn.data(), 1e-6f},
                 StoreOutput<float>{{}, y.data(), nullptr}, tensor);
    const Wanted wanted = linear_in_double(as_double(x.to_host()), W, 1, kOutputs, K);
    const Check check = compare(y.to_host(), wanted.value, linear_tolerance<float>(wanted, K), kOutputs);
    INFO(rows << " rows, chunks of " << chunk << ", K=" << K << (tensor ? ", mma: " : ": ") << check.text());
    REQUIRE(check.ok);
  });
}
TEST_CASE("08 gemv_swiglu: every height of a slab of pairs, K in chunks") {
  every_form(16, [](int rows, int chunk, int K, bool tensor) {
    const auto x = integers(K, 6), gate = integers(size_t(kOutputs) * K, 7), up = integers(size_t(kOutputs) * K, 8);
    DeviceBuffer<bfloat16> dx(x), dg(gate), du(up), y(kOutputs);
    Stream stream;
    launch_slabs(stream, {dg.data(), kOutputs, K, rows, chunk, K % 8 == 0}, FromBfloat16{dx.data()},
                 SwigluOutput{du.data(), y.data()}, tensor);
    std::vector<double> want(kOutputs);
    const auto g = linear_in_double(as_double(x), gate, 1, kOutputs, K).value;
    const auto u = linear_in_double(as_double(x), up, 1, kOutputs, K).value;
    for (int n = 0; n < kOutputs; ++n) {  // the sums are exact, so that their rounding is known
      const double a = round_bf16(float(g[n])), b = round_bf16(float(u[n]));
      want[n] = a / (1 + std::exp(-a)) * b;
    }
    // __expf(x) is wrong by (2 + 1.16·|x|) units of 2^-23, and |x| stays below 200
    const auto tolerance = [&](size_t i) { return (kBfloat16Ulp + 500 * kFloatUlp) * std::fabs(want[i]) + 1e-30; };
    const Check check = compare(y.to_host(), want, tolerance, kOutputs);
    INFO(rows << " rows, chunks of " << chunk << ", K=" << K << (tensor ? ", mma: " : ": ") << check.text());
    REQUIRE(check.ok);
  });
}
