#include "08_qwen_operators/argmax_finish.cuh"
#include "08_qwen_operators/gemv.cuh"
#include "08_qwen_operators/test_linear.hpp"
#include "common/thin_tests.hpp"

namespace {

struct Size {
  int N, K;
};
// Around the slab's 8, 16 and 32 rows and the blocks of 32 columns; K that allows 16-byte copies and K that does not.
const std::vector<Size> kSizes{{1, 1},   {2, 2},    {7, 31},   {8, 32},    {9, 33},  {15, 64},  {16, 72},  {17, 96},
                               {31, 63}, {33, 128}, {37, 200}, {257, 896}, {5, 127}, {32, 160}, {40, 1152}};

template <class T>
void same_twice(const DeviceBuffer<T>& y, const std::vector<T>& first, const std::function<void()>& again) {
  again();
  const std::vector<T> second = y.to_host();
  REQUIRE(std::memcmp(first.data(), second.data(), first.size() * sizeof(T)) == 0);
}

template <class Out>
void check_gemv(int N, int K, bool with_bias, size_t shift = 0) {
  const auto x = random_bf16(K, 1), W = random_bf16(size_t(N) * K, 2), bias = random_bf16(N, 3);
  std::vector<bfloat16> shifted(shift);
  shifted.insert(shifted.end(), W.begin(), W.end());
  DeviceBuffer<bfloat16> dx(x), dW(shifted), db(bias);
  DeviceBuffer<Out> y(N);
  Stream stream;
  const auto run = [&] {
    gemv(stream, dx.data(), dW.data() + shift, with_bias ? db.data() : nullptr, y.data(), N, K);
    stream.synchronize();
  };
  run();
  Wanted wanted = linear_in_double(as_double(x), W, 1, N, K);
  if (with_bias)
    for (int n = 0; n < N; ++n) {
      wanted.value[n] += to_double(bias[n]);
      wanted.magnitude[n] += std::fabs(to_double(bias[n]));
    }
  const auto got = y.to_host();
  const Check check = compare(got, wanted.value, linear_tolerance<Out>(wanted, K), N);
  INFO("N=" << N << " K=" << K << ": " << check.text());
  REQUIRE(check.ok);
  y.poison();
  same_twice(y, got, run);
}

// residual, norm weight and what the projections must see of them.
struct Normed {
  std::vector<float> residual;
  std::vector<bfloat16> norm;
  std::vector<double> x;
  DeviceBuffer<float> d_residual;
  DeviceBuffer<bfloat16> d_norm;
  explicit Normed(int K) : residual(random_normal_with_outliers(K, 11)), norm(random_bf16(K, 12)) {
    x = rms_norm_in_double(residual, norm, 1, K, 1e-6);
    d_residual = DeviceBuffer<float>(residual);
    d_norm = DeviceBuffer<bfloat16>(norm);
  }
};
// A value of x·r that lies between two bfloat16 may be rounded either way when r differs in its last bit: two roundings
// of 2^-8 between neighbours for a few elements, far below one for all.
constexpr double kNormSlack = 2 * kBfloat16Ulp;

}  // namespace

TEST_CASE("08 gemv: float output, every size") {
  for (const Size& s : kSizes) check_gemv<float>(s.N, s.K, false);
}
TEST_CASE("08 gemv: bfloat16 output with bias, every size") {
  for (const Size& s : kSizes) check_gemv<bfloat16>(s.N, s.K, true);
}
TEST_CASE("08 gemv: weights that start at any element take the guarded copy") {
  check_gemv<float>(19, 64, true, 1);
  check_gemv<float>(19, 64, true, 4);
}
TEST_CASE("08 gemv: rows longer than the slab go in chunks") {
  check_gemv<float>(3, 20000, false);
  check_gemv<float>(33, 8 * 2500 + 3, true);
}
TEST_CASE("08 gemv: a float sum of 1024 ones is 1024, where a bfloat16 sum would stop at 256") {
  const std::vector<bfloat16> ones(1024, __float2bfloat16(1.f));
  DeviceBuffer<bfloat16> x(ones), y(1);
  Stream stream;
  gemv(stream, x.data(), x.data(), nullptr, y.data(), 1, 1024);
  REQUIRE(to_double(y.to_host()[0]) == 1024);
}
TEST_CASE("08 gemv: without tensor cores the same sums") {
  const int N = 37, K = 200;
  const auto x = random_bf16(K, 1), W = random_bf16(size_t(N) * K, 2);
  DeviceBuffer<bfloat16> dx(x), dW(W);
  DeviceBuffer<float> y(N);
  Stream stream;
  const GemvShape shape{dW.data(), N, K, 16, 224, true};
  launch(gemv_kernel<FromBfloat16, StoreOutput<float>, false>, dim3(3), dim3(224),
         on(stream).smem(shape.shared_bytes(7)), shape, FromBfloat16{dx.data()},
         StoreOutput<float>{{}, y.data(), nullptr});
  const Wanted wanted = linear_in_double(as_double(x), W, 1, N, K);
  const Check check = compare(y.to_host(), wanted.value, linear_tolerance<float>(wanted, K), N);
  INFO(check.text());
  REQUIRE(check.ok);
}
TEST_CASE("08 gemv_add: the residual grows by the product") {
  for (const Size& s : kSizes) {
    const auto x = random_bf16(s.K, 1), W = random_bf16(size_t(s.N) * s.K, 2);
    const auto before = random_uniform(s.N, 3);
    DeviceBuffer<bfloat16> dx(x), dW(W);
    DeviceBuffer<float> residual(before);
    Stream stream;
    gemv_add(stream, dx.data(), dW.data(), residual.data(), s.N, s.K);
    Wanted wanted = linear_in_double(as_double(x), W, 1, s.N, s.K);
    for (int n = 0; n < s.N; ++n) wanted.value[n] += before[n], wanted.magnitude[n] += std::fabs(before[n]);
    const Check check = compare(residual.to_host(), wanted.value, linear_tolerance<float>(wanted, s.K), s.N);
    INFO("N=" << s.N << " K=" << s.K << ": " << check.text());
    REQUIRE(check.ok);
  }
}
TEST_CASE("08 norm_gemv: equals rms_norm and gemv bit for bit") {
  for (const Size& s : kSizes) {
    Normed in(s.K);
    const auto W = random_bf16(size_t(s.N) * s.K, 2), bias = random_bf16(s.N, 3);
    DeviceBuffer<bfloat16> dW(W), db(bias), x(s.K), fused(s.N), separate(s.N);
    Stream stream;
    norm_gemv(stream, in.d_residual.data(), in.d_norm.data(), 1e-6f, dW.data(), db.data(), fused.data(), s.N, s.K);
    rms_norm(stream, in.d_residual.data(), in.d_norm.data(), x.data(), 1, s.K, 1e-6f);
    gemv(stream, x.data(), dW.data(), db.data(), separate.data(), s.N, s.K);
    stream.synchronize();
    const Check check = compare_exact(fused.to_host(), as_double(separate.to_host()), s.N);
    INFO("N=" << s.N << " K=" << s.K << ": " << check.text());
    REQUIRE(check.ok);
    Wanted wanted = linear_in_double(in.x, W, 1, s.N, s.K);
    for (int n = 0; n < s.N; ++n)
      wanted.value[n] += to_double(bias[n]), wanted.magnitude[n] += std::fabs(to_double(bias[n]));
    const Check value =
        compare(fused.to_host(), wanted.value, linear_tolerance<bfloat16>(wanted, s.K, kNormSlack), s.N);
    INFO(value.text());
    REQUIRE(value.ok);
  }
}
TEST_CASE("08 norm_gemv_swiglu: the bits of the three kernels it replaces, and against double") {
  for (const Size& s : kSizes) {
    Normed in(s.K);
    const auto gate = random_bf16(size_t(s.N) * s.K, 2), up = random_bf16(size_t(s.N) * s.K, 3);
    DeviceBuffer<bfloat16> dg(gate), du(up), y(s.N);
    Stream stream;
    norm_gemv_swiglu(stream, in.d_residual.data(), in.d_norm.data(), 1e-6f, dg.data(), du.data(), y.data(), s.N, s.K);
    DeviceBuffer<bfloat16> separate_gate(s.N), separate_up(s.N), separate(s.N);
    for (auto [W, out] : {std::pair(&dg, &separate_gate), std::pair(&du, &separate_up)})
      norm_gemv(stream, in.d_residual.data(), in.d_norm.data(), 1e-6f, W->data(), nullptr, out->data(), s.N, s.K);
    act_mul(stream, separate_gate.data(), separate_up.data(), separate.data(), 1, s.N, s.N);
    stream.synchronize();
    REQUIRE(compare_exact(y.to_host(), as_double(separate.to_host()), s.N).ok);
    const Wanted g = linear_in_double(in.x, gate, 1, s.N, s.K), u = linear_in_double(in.x, up, 1, s.N, s.K);
    const auto tol_g = linear_tolerance<bfloat16>(g, s.K, kNormSlack);
    const auto tol_u = linear_tolerance<bfloat16>(u, s.K, kNormSlack);
    std::vector<double> want(s.N), tolerance(s.N);
    for (int n = 0; n < s.N; ++n) {
      const double act = g.value[n] / (1 + std::exp(-g.value[n]));
      want[n] = act * u.value[n];
      // |SiLU'| ≤ 1.1
      tolerance[n] = 1.1 * tol_g(n) * (std::fabs(u.value[n]) + tol_u(n)) + std::fabs(act) * tol_u(n) +
                     (kBfloat16Ulp + 8 * kFloatUlp) * std::fabs(want[n]) + 1e-30;
    }
    const auto got = y.to_host();
    const Check check = compare(
        got, want, [&](size_t i) { return tolerance[i]; }, s.N);
    INFO("N=" << s.N << " K=" << s.K << ": " << check.text());
    REQUIRE(check.ok);
  }
}
TEST_CASE("08 norm_gemv_logits: logits, and the argmax of the blocks") {
  for (const Size& s : kSizes) {
    Normed in(s.K);
    auto W = random_bf16(size_t(s.N) * s.K, 2);
    if (s.N > 3)  // a tie: the last row equals row 1
      for (int k = 0; k < s.K; ++k) W[size_t(s.N - 1) * s.K + k] = W[size_t(1) * s.K + k];
    DeviceBuffer<bfloat16> dW(W);
    DeviceBuffer<float> logits(s.N);
    DeviceBuffer<BlockBest> best(gemv_logits_blocks(s.N));
    DeviceBuffer<int> index(1);
    Stream stream;
    norm_gemv_logits(stream, in.d_residual.data(), in.d_norm.data(), 1e-6f, dW.data(), logits.data(), best.data(), s.N,
                     s.K);
    argmax_finish(stream, best.data(), int(best.size()), index.data());
    stream.synchronize();
    const auto got = logits.to_host();
    const Wanted wanted = linear_in_double(in.x, W, 1, s.N, s.K);
    const Check check = compare(got, wanted.value, linear_tolerance<float>(wanted, s.K, kNormSlack), s.N);
    INFO("N=" << s.N << " K=" << s.K << ": " << check.text());
    REQUIRE(check.ok);
    REQUIRE(index.to_host()[0] == int(std::max_element(got.begin(), got.end()) - got.begin()));
  }
}
TEST_CASE("08 argmax_finish: ties, NaN, infinities, more blocks than threads") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  Stream stream;
  DeviceBuffer<int> index(1);
  const auto of = [&](const std::vector<BlockBest>& best) {
    DeviceBuffer<BlockBest> d(best);
    argmax_finish(stream, d.data(), int(best.size()), index.data());
    stream.synchronize();
    return index.to_host()[0];
  };
  REQUIRE(of({{-1.f, 5}}) == 5);
  REQUIRE(of({{2.f, 9}, {2.f, 4}, {1.f, 0}}) == 4);
  REQUIRE(of({{nan, 3}, {-inf, 7}}) == 7);
  REQUIRE(of({{nan, INT32_MAX}}) == 0);
  std::vector<BlockBest> many(2500);
  for (int i = 0; i < 2500; ++i) many[i] = {float(i % 1237), 32 * i};
  REQUIRE(of(many) == 32 * 1236);
  for (const int i : {5, 5 + 256, 5 + 512, 5 + 1024}) many[i].value = 1e6f;  // equal values that one thread sees
  REQUIRE(of(many) == 32 * 5);
}
TEST_CASE("08 norm_gemv_rope_store: equals the separate kernels, any heads") {
  struct Heads {
    int heads, kv_heads, head_dim, K;
  };
  for (const Heads& h :
       std::vector<Heads>{{8, 2, 16, 64}, {14, 2, 8, 72}, {6, 2, 10, 33}, {1, 1, 2, 1}, {4, 4, 64, 128}})
    for (const int position : {0, 1, 12}) {
      const HeadSplit split{h.heads, h.kv_heads, h.head_dim};
      const int capacity = 13, half = h.head_dim / 2, cache_size = h.kv_heads * capacity * h.head_dim;
      Normed in(h.K);
      const auto W = random_bf16(size_t(split.row()) * h.K, 2), bias = random_bf16(split.row(), 3);
      std::vector<float2> angles(size_t(capacity) * half);
      for (int i = 0; i < capacity * half; ++i) angles[i] = make_float2(std::cos(i * 0.1f), std::sin(i * 0.1f));
      const std::vector<bfloat16> empty(cache_size, __float2bfloat16(-7.f));
      DeviceBuffer<bfloat16> dW(W), db(bias), x(h.K), qkv(split.row()), q1(h.heads * h.head_dim),
          q2(h.heads * h.head_dim);
      DeviceBuffer<bfloat16> k1(empty), v1(empty), k2(empty), v2(empty);
      DeviceBuffer<float2> table(angles);
      DeviceBuffer<int> at(std::vector<int>{position});
      Stream stream;
      norm_gemv_rope_store(
          stream, in.d_residual.data(), in.d_norm.data(), 1e-6f, dW.data(),
          RopeStoreOutput{db.data(), table.data(), at.data(), q1.data(), {k1.data(), v1.data(), capacity}, split}, h.K);
      norm_gemv(stream, in.d_residual.data(), in.d_norm.data(), 1e-6f, dW.data(), db.data(), qkv.data(), split.row(),
                h.K);
      qk_norm_rope_store(stream,
                         {qkv.data(),
                          nullptr,
                          nullptr,
                          table.data(),
                          at.data(),
                          q2.data(),
                          {k2.data(), v2.data(), capacity},
                          split,
                          h.head_dim,
                          0.f},
                         1);
      stream.synchronize();
      INFO("heads " << h.heads << "/" << h.kv_heads << " × " << h.head_dim << ", position " << position);
      // the same sums, the same roundings; the compiler may contract a·c − b·s differently, which shows as one rounding
      const auto near = [](const DeviceBuffer<bfloat16>& a, const DeviceBuffer<bfloat16>& b) {
        const auto want = as_double(b.to_host());
        return compare(
                   a.to_host(), want, [&](size_t i) { return 4 * kBfloat16Ulp * std::fabs(want[i]) + 1e-6; }, 1)
            .ok;
      };
      REQUIRE(near(q1, q2));
      REQUIRE(near(k1, k2));
      REQUIRE(compare_exact(v1.to_host(), as_double(v2.to_host()), 1).ok);
    }
}
TEST_CASE("08 gemv: a chain of all forms gives the same bits eagerly, in a graph and under dependent launch") {
  const int H = 256, I = 352, V = 331, layers = large_tests() ? 24 : 2;
  const HeadSplit split{4, 2, 64};
  const auto residual = random_uniform(H, 1);
  DeviceBuffer<float> r(residual), logits(V);
  DeviceBuffer<bfloat16> norm(random_bf16(H, 2)), qkv(random_bf16(size_t(split.row()) * H, 3, 0.06f)),
      o(random_bf16(size_t(H) * H, 4, 0.06f)), gate(random_bf16(size_t(I) * H, 5, 0.06f)),
      up(random_bf16(size_t(I) * H, 6, 0.06f)), down(random_bf16(size_t(I) * H, 7, 0.06f)),
      head(random_bf16(size_t(V) * H, 8)), q(H), act(I), k(2 * 3 * 64), v(2 * 3 * 64);
  DeviceBuffer<float2> table(std::vector<float2>(3 * 32, make_float2(0.6f, 0.8f)));
  DeviceBuffer<int> position(std::vector<int>{2}), index(1);
  DeviceBuffer<BlockBest> best(gemv_logits_blocks(V));
  Stream stream;
  const auto chain = [&](bool pdl) {
    for (int layer = 0; layer < layers; ++layer) {
      norm_gemv_rope_store(
          stream, r.data(), norm.data(), 1e-6f, qkv.data(),
          RopeStoreOutput{nullptr, table.data(), position.data(), q.data(), {k.data(), v.data(), 3}, split}, H, pdl);
      gemv_add(stream, q.data(), o.data(), r.data(), H, H, pdl);
      norm_gemv_swiglu(stream, r.data(), norm.data(), 1e-6f, gate.data(), up.data(), act.data(), I, H, pdl);
      gemv_add(stream, act.data(), down.data(), r.data(), H, I, pdl);
    }
    norm_gemv_logits(stream, r.data(), norm.data(), 1e-6f, head.data(), logits.data(), best.data(), V, H, pdl);
    argmax_finish(stream, best.data(), int(best.size()), index.data(), pdl);
  };
  const auto result_of = [&](const std::function<void()>& run) {
    r.upload(residual);
    for (auto* b : {&q, &act, &k, &v}) b->poison();
    logits.poison();
    run();
    stream.synchronize();
    return logits.to_host();
  };
  const auto eager = result_of([&] { chain(false); });
  for (float value : eager) REQUIRE(std::isfinite(value));
  REQUIRE(index.to_host()[0] == int(std::max_element(eager.begin(), eager.end()) - eager.begin()));
  const auto same = [&](const std::vector<float>& other) {
    return std::memcmp(other.data(), eager.data(), eager.size() * sizeof(float)) == 0;
  };
  REQUIRE(same(result_of([&] { chain(true); })));
  const Graph graph = Graph::capture(stream, [&] { chain(true); });
  REQUIRE(graph.nodes() == 4 * layers + 2);
  for (int i = 0; i < (large_tests() ? 100 : 2); ++i) REQUIRE(same(result_of([&] { graph.replay(stream); })));
}
