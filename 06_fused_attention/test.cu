// Every kernel of the step against the reference, for the shapes, masks and values that break attention kernels.
#include "06_fused_attention/attention_case.hpp"
#include "06_fused_attention/fused_fp32.cuh"
#include "06_fused_attention/fused_mma.cuh"
#include "06_fused_attention/fused_sm90.cuh"
#include "06_fused_attention/reference.cuh"
#include "06_fused_attention/unfused.cuh"
#include "common/catch.hpp"
#include "common/thin_tests.hpp"

namespace {

// A kernel under test: what it takes, how it rounds, and how it is called.
template <class T>
struct Kernel {
  const char* name;
  AttentionRounding rounding;
  int head_dim;  // 0: any
  void (*run)(Stream&, const Attention<T>&);
  bool hopper = false;
};

void unfused(Stream& stream, const Attention<float>& p) {
  UnfusedScratch scratch(p.q_len, p.kv_len, p.head_dim);
  attention_unfused(stream, p, scratch);
  stream.synchronize();
}

template <int D, int HEIGHT>
void mma(Stream& stream, const Attention<bfloat16>& p) {
  attention_mma<D, HEIGHT>(stream, p);
}
template <int D, bool SPLIT_KEYS>
void hopper(Stream& stream, const Attention<bfloat16>& p) {
  attention_sm90<D>(stream, p, SPLIT_KEYS);
}

const Kernel<float> kFloatKernels[] = {
    {"unfused", kFloatThroughout, 0, unfused},
    {"fused fp32, large", kFloatThroughout, 0, attention_simt_large<float>},
    {"fused fp32, small", kFloatThroughout, 0, attention_simt_small<float>},
};
const Kernel<bfloat16> kBfloat16Kernels[] = {
    {"fused on CUDA cores, bf16", kOutputBfloat16, 0, attention_fused_fp32<bfloat16>},
    {"fused on CUDA cores, bf16, small", kOutputBfloat16, 0, attention_simt_small<bfloat16>},
    {"mma 64, 16 rows a warp", kWeightsAndOutputBfloat16, 64, mma<64, 1>},
    {"mma 64, 32 rows a warp", kWeightsAndOutputBfloat16, 64, mma<64, 2>},
    {"mma 128, 16 rows a warp", kWeightsAndOutputBfloat16, 128, mma<128, 1>},
    {"mma 128, 32 rows a warp", kWeightsAndOutputBfloat16, 128, mma<128, 2>},
    {"mma 256", kWeightsAndOutputBfloat16, 256, mma<256, 1>},
    {"wgmma 64", kWeightsAndOutputBfloat16, 64, hopper<64, false>, true},
    {"wgmma 64, split keys", kWeightsAndOutputBfloat16, 64, hopper<64, true>, true},
    {"wgmma 128", kWeightsAndOutputBfloat16, 128, hopper<128, false>, true},
    {"wgmma 128, split keys", kWeightsAndOutputBfloat16, 128, hopper<128, true>, true},
    {"wgmma 256", kWeightsAndOutputBfloat16, 256, hopper<256, false>, true},
    {"wgmma 256, split keys", kWeightsAndOutputBfloat16, 256, hopper<256, true>, true},
};

bool runs_here(const Kernel<float>& kernel, int head_dim) {
  return kernel.run != attention_simt_large<float> || attention_simt_large_fits(head_dim);
}
bool runs_here(const Kernel<bfloat16>& kernel, int head_dim) {
  if (kernel.head_dim != 0 && kernel.head_dim != head_dim) return false;
  if (kernel.hopper && !device().has_wgmma) return false;
  return kernel.rounding != kWeightsAndOutputBfloat16 || device().has_bf16_mma;
}

// Runs each kernel on the problem and compares.
template <class T, size_t kCount>
void check_kernels(const Kernel<T> (&kernels)[kCount], AttentionCase<T>& c) {
  const AttentionReference reference = attention_reference(c.problem);
  for (const Kernel<T>& kernel : kernels) {
    const Attention<T>& p = c.problem;
    if (!runs_here(kernel, p.head_dim)) continue;
    c.out.poison();
    Stream stream;
    kernel.run(stream, p);
    stream.synchronize();
    const Check check = compare_attention(c.out.to_host(), reference, kernel.rounding);
    INFO(kernel.name << ": " << p.batch << " x " << p.heads << "/" << p.kv_heads << " heads, q " << p.q_len << ", kv "
                     << p.kv_len << ", head_dim " << p.head_dim << (p.causal ? ", causal from " : ", full, ")
                     << p.q_start << ": " << check.text());
    REQUIRE(check.ok);
  }
}
void check_float(AttentionCase<float>& c) { check_kernels(kFloatKernels, c); }
void check_bfloat16(AttentionCase<bfloat16>& c) { check_kernels(kBfloat16Kernels, c); }
void check_all(const AttentionShape& shape, uint64_t seed) {
  AttentionCase<float> f(shape, seed);
  check_float(f);
  AttentionCase<bfloat16> b(shape, seed);
  check_bfloat16(b);
}

std::vector<uint8_t> mask_every_third(int batch, int kv_len) {
  std::vector<uint8_t> mask(size_t(batch) * size_t(kv_len), 1);
  for (size_t i = 0; i < mask.size(); i += 3) mask[i] = 0;
  return mask;
}

}  // namespace

TEST_CASE("06 the reference: the formula, written out once more") {
  AttentionShape shape{2, 4, 2, 3, 5, 64, true, 1};
  AttentionCase<float> c(shape, 3);
  c.hide_keys({1, 0, 1, 1, 1, 1, 1, 1, 1, 0});
  const AttentionReference reference = attention_reference(c.problem);
  const auto q = c.q.to_host(), k = c.k.to_host(), v = c.v.to_host();
  const std::vector<uint8_t> mask = c.key_mask.to_host();
  std::vector<double> want;
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 4; ++h)
      for (int i = 0; i < 3; ++i) {
        double sum = 0, out[64] = {};
        for (int j = 0; j < 5; ++j) {
          if (j > 1 + i || mask[size_t(b * 5 + j)] == 0) continue;
          double s = 0;
          for (int d = 0; d < 64; ++d)
            s += double(q[size_t(((b * 4 + h) * 3 + i) * 64 + d)]) * k[size_t(((b * 2 + h / 2) * 5 + j) * 64 + d)];
          const double weight = std::exp(s / 8);
          sum += weight;
          for (int d = 0; d < 64; ++d) out[d] += weight * v[size_t(((b * 2 + h / 2) * 5 + j) * 64 + d)];
        }
        for (double o : out) want.push_back(o / sum);
      }
  const Check check = compare(reference.want, want, 1e-9, 64);
  INFO(check.text());
  REQUIRE(check.ok);
}

TEST_CASE("06 lengths around the tiles, head_dim 64") {
  uint64_t seed = 10;
  for (int length : thinned<int>({1, 2, 63, 64, 65, 127})) check_all({1, 2, 1, length, length, 64, true}, ++seed);
  check_all({1, 1, 1, 129, 65, 64}, ++seed);
}
TEST_CASE("06 lengths around the tiles, head_dim 128") {
  uint64_t seed = 20;
  for (int length : thinned<int>({1, 31, 33, 65})) check_all({1, 2, 1, length, length, 128, true}, ++seed);
  check_all({1, 1, 1, 3, 129, 128}, ++seed);
}
TEST_CASE("06 lengths around the tiles, head_dim 256") {
  uint64_t seed = 30;
  for (int length : thinned<int>({1, 9, 65})) check_all({1, 2, 1, length, length, 256, true}, ++seed);
  check_all({1, 1, 1, 2, 67, 256}, ++seed);
}
TEST_CASE("06 long and prime lengths") {
  const std::vector<int> lengths = large_tests()  ? std::vector<int>{1000, 4097}
                                   : thin_tests() ? std::vector<int>{67}
                                                  : std::vector<int>{191, 257};
  for (int length : lengths)
    for (int head_dim : {64, 128, 256}) check_all({1, 2, 1, length, length, head_dim, length % 2 == 1}, 40);
  const int prime = large_tests() ? 1021 : 71;
  check_all({2, thin_tests() ? 4 : 16, thin_tests() ? 2 : 8, prime, prime, 128, true}, 41);
}

TEST_CASE("06 a query length that is not the key length: chunked prefill") {
  for (int q_start : {1, 40, 64}) check_all({1, 2, 1, 33, q_start + 33, 64, true, q_start}, 50 + q_start);
  check_all({1, 1, 1, 1, 70, 128, true, 69}, 60);
  check_all({1, 1, 1, 70, 1, 64}, 61);
}

TEST_CASE("06 a prompt in two pieces gives what it gives whole") {
  const int length = 90, split = 37, D = 64;
  AttentionCase<bfloat16> whole({1, 2, 1, length, length, D, true}, 70);
  Attention<bfloat16> first = whole.problem, second = whole.problem;
  first.q_len = first.kv_len = split;  // strides stay: the pieces are parts of the same buffers
  second.q += split * D;
  second.out += split * D;
  second.q_len = length - split;
  second.q_start = split;
  const AttentionReference reference = attention_reference(whole.problem);
  for (const Kernel<bfloat16>& kernel : kBfloat16Kernels) {
    if (!runs_here(kernel, D)) continue;
    whole.out.poison();
    Stream stream;
    kernel.run(stream, first);
    kernel.run(stream, second);
    stream.synchronize();
    const Check check = compare_attention(whole.out.to_host(), reference, kernel.rounding);
    INFO(kernel.name << ": " << check.text());
    REQUIRE(check.ok);
  }
}

TEST_CASE("06 grouped queries: 6/2, 14/2, 8/8, 4/1 heads with their own keys and values each") {
  const int pairs[][2] = {{6, 2}, {14, 2}, {8, 8}, {4, 1}};
  for (const auto& heads : pairs) check_all({1, heads[0], heads[1], 5, 19, 64}, 80 + heads[0]);
  check_all({2, 6, 2, 3, 7, 128, true, 4}, 90);
}

TEST_CASE("06 padding, alone and with the causal limit") {
  for (bool causal : {false, true}) {
    const AttentionShape shape{2, 2, 1, 66, 70, 64, causal, 4};
    AttentionCase<float> f(shape, 100);
    f.hide_keys(mask_every_third(2, 70));
    check_float(f);
    AttentionCase<bfloat16> b(shape, 101);
    b.hide_keys(mask_every_third(2, 70));
    check_bfloat16(b);
  }
}

TEST_CASE("06 a query that may attend to nothing gives 0") {
  // batch 0: all keys are padding; batch 1: none. Queries 0..4 stand before key 0.
  const AttentionShape shape{2, 2, 2, 70, 66, 64, true, -5};
  std::vector<uint8_t> mask(2 * 66, 1);
  std::fill(mask.begin(), mask.begin() + 66, uint8_t(0));
  AttentionCase<float> f(shape, 110);
  f.hide_keys(mask);
  check_float(f);
  AttentionCase<bfloat16> b(shape, 111);
  b.hide_keys(mask);
  check_bfloat16(b);
  const AttentionReference reference = attention_reference(b.problem);
  for (size_t i = 0; i < 2 * 70 * 64; ++i) REQUIRE(reference.want[i] == 0.0);
  REQUIRE(reference.want[size_t(2 * 70 + 4) * 64] == 0.0);
  REQUIRE(reference.want[size_t(2 * 70 + 5) * 64] != 0.0);
}

TEST_CASE("06 a tile of keys wholly beyond the causal limit, and whole tiles of padding") {
  check_all({1, 1, 1, 2, 200, 64, true, 10}, 120);  // keys 12..199 are seen by nobody
  std::vector<uint8_t> mask(200, 0);
  mask[70] = 1;  // one key in the second tile; first and last tiles are empty for every row
  AttentionCase<float> f({1, 1, 1, 3, 200, 64}, 121);
  f.hide_keys(mask);
  check_float(f);
  AttentionCase<bfloat16> b({1, 1, 1, 3, 200, 64}, 122);
  b.hide_keys(mask);
  check_bfloat16(b);
}

TEST_CASE("06 scores near -131072 and +131072: nothing finite may stand for minus infinity") {
  for (float sign : {-1.f, 1.f}) {
    // score of key j = sign · 131072 + j % 4, exact in float and from exact bfloat16; padding has values of 100
    const int keys = 70, D = 64;
    std::vector<float> q(D, 0.f), k(size_t(keys) * D, 0.f), v(size_t(keys) * D);
    std::vector<uint8_t> mask(keys, 1);
    q[0] = 16384.f;
    q[1] = 1.f;
    for (int j = 0; j < keys; ++j) {
      k[size_t(j) * D] = sign * 8.f;
      k[size_t(j) * D + 1] = float(j % 4);
      mask[size_t(j)] = j % 5 != 0;
      for (int d = 0; d < D; ++d) v[size_t(j) * D + d] = j % 5 == 0 ? 100.f : float(j % 4);
    }
    const double e = std::exp(1.0);
    double sum = 0, want = 0;
    for (int j = 0; j < keys; ++j)
      if (j % 5 != 0) sum += std::pow(e, j % 4), want += std::pow(e, j % 4) * (j % 4);
    want /= sum;
    const auto check = [&](const auto& kernels, auto& c) {
      c.problem.scale = 1.f;
      c.hide_keys(mask);
      for (const auto& kernel : kernels) {
        if (!runs_here(kernel, D)) continue;
        c.out.poison();
        Stream stream;
        kernel.run(stream, c.problem);
        stream.synchronize();
        INFO(kernel.name << ", sign " << sign);
        for (auto got : c.out.to_host()) REQUIRE(std::fabs(to_double(got) - want) <= 0.02 * want);
      }
    };
    AttentionCase<float> f({1, 1, 1, 1, keys, D}, q, k, v);
    check(kFloatKernels, f);
    AttentionCase<bfloat16> b({1, 1, 1, 1, keys, D}, q, k, v);
    check(kBfloat16Kernels, b);
  }
}

TEST_CASE("06 strides: positions outermost, and a cache with room that holds NaN") {
  const int heads = 4, kv_heads = 2, q_len = 9, kv_len = 21, capacity = 40, D = 64;
  const auto run = [&](const auto& kernels, auto type) {
    using T = decltype(type);
    AttentionCase<T> plain({1, heads, kv_heads, q_len, kv_len, D, true, kv_len - q_len}, 130);
    const AttentionReference reference = attention_reference(plain.problem);
    const auto q = plain.q.to_host(), k = plain.k.to_host(), v = plain.v.to_host();
    std::vector<T> q_by_token(q.size());  // [q_len, heads, D]
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < q_len; ++i)
        std::copy_n(&q[size_t(h * q_len + i) * D], D, &q_by_token[size_t(i * heads + h) * D]);
    const size_t room = size_t(kv_heads) * capacity * D;
    const T nan = from_float<T>(std::nanf(""));
    std::vector<T> k_cache(room, nan), v_cache(room, nan);  // [kv_heads, capacity, D]
    for (int h = 0; h < kv_heads; ++h) {
      std::copy_n(&k[size_t(h) * kv_len * D], kv_len * D, &k_cache[size_t(h) * capacity * D]);
      std::copy_n(&v[size_t(h) * kv_len * D], kv_len * D, &v_cache[size_t(h) * capacity * D]);
    }
    DeviceBuffer<T> q_device(q_by_token), k_device(k_cache), v_device(v_cache), out(q.size());
    Attention<T> p = plain.problem;
    p.q = q_device.data();
    p.k = k_device.data();
    p.v = v_device.data();
    p.out = out.data();
    p.q_row_stride = p.out_row_stride = heads * D;
    p.q_head_stride = p.out_head_stride = D;
    p.kv_head_stride = int64_t(capacity) * D;
    for (const auto& kernel : kernels) {
      if (!runs_here(kernel, D)) continue;
      out.poison();
      Stream stream;
      kernel.run(stream, p);
      stream.synchronize();
      const std::vector<T> by_token = out.to_host();
      std::vector<T> got(by_token.size());
      for (int h = 0; h < heads; ++h)
        for (int i = 0; i < q_len; ++i)
          std::copy_n(&by_token[size_t(i * heads + h) * D], D, &got[size_t(h * q_len + i) * D]);
      const Check check = compare_attention(got, reference, kernel.rounding);
      INFO(kernel.name << ": " << check.text());
      REQUIRE(check.ok);
    }
  };
  run(kFloatKernels, 0.f);
  run(kBfloat16Kernels, bfloat16{});
}

TEST_CASE("06 the forms that callers use pick a kernel that is right") {
  AttentionCase<float> f({1, 2, 1, 40, 40, 64, true}, 140);
  AttentionCase<bfloat16> b({1, 2, 1, 130, 130, 128, true}, 141);
  Stream stream;
  attention_fused_fp32(stream, f.problem);
  stream.synchronize();
  REQUIRE(compare_attention(f.out.to_host(), attention_reference(f.problem), kFloatThroughout).ok);
  if (device().has_bf16_mma) {
    attention_fused_mma(stream, b.problem);
    stream.synchronize();
    REQUIRE(compare_attention(b.out.to_host(), attention_reference(b.problem), kWeightsAndOutputBfloat16).ok);
  } else {
    REQUIRE_THROWS_AS(attention_fused_mma(stream, b.problem), EnvironmentError);
  }
}

TEST_CASE("06 what is refused before anything is launched") {
  AttentionCase<bfloat16> good({1, 4, 2, 3, 3, 64}, 150);
  Stream stream;
  const auto refused = [&](auto change) {
    Attention<bfloat16> p = good.problem;
    change(p);
    REQUIRE_THROWS_AS(attention_fused_fp32(stream, p), BadInput);
  };
  refused([](auto& p) { p.kv_heads = 3; });
  refused([](auto& p) { p.head_dim = 96; });
  refused([](auto& p) { p.q_len = 0; });
  refused([](auto& p) { p.kv_len = 0; });
  refused([](auto& p) { p.scale = 0.f; });
  refused([](auto& p) { p.kv_row_stride = 65; });
  refused([](auto& p) { p.q = nullptr; });
  refused([](auto& p) { p.q_start = INT32_MAX; });
  UnfusedScratch small(2, 3, 64);
  AttentionCase<float> f({1, 1, 1, 3, 3, 64}, 151);
  REQUIRE_THROWS_AS(attention_unfused(stream, f.problem, small), BadInput);
}
