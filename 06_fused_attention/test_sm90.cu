// The Hopper kernel where test.cu, which runs it in every case of its own, does not reach: several tiles of queries and
// keys, heads that share a tile, and what lies beside the rows that TMA moves.
#include "06_fused_attention/attention_case.hpp"
#include "06_fused_attention/fused_sm90.cuh"
#include "06_fused_attention/reference.cuh"
#include "common/catch.hpp"
#include "common/thin_tests.hpp"

namespace {

using Run = void (*)(Stream&, const Attention<bfloat16>&, bool split_keys, bool pdl);
Run kernel_for(int head_dim) {
  return head_dim == 64 ? attention_sm90<64> : head_dim == 128 ? attention_sm90<128> : attention_sm90<256>;
}

void run(const Attention<bfloat16>& p, bool split_keys) {
  Stream stream;
  kernel_for(p.head_dim)(stream, p, split_keys, false);
  stream.synchronize();
}

// Both forms of the kernel against the reference.
void check(AttentionCase<bfloat16>& c) {
  if (!device().has_wgmma) return;
  const Attention<bfloat16>& p = c.problem;
  const AttentionReference reference = attention_reference(p);
  for (bool split_keys : {false, true}) {
    c.out.poison();
    run(p, split_keys);
    const Check check = compare_attention(c.out.to_host(), reference, kWeightsAndOutputBfloat16);
    INFO(p.batch << " x " << p.heads << "/" << p.kv_heads << " heads, q " << p.q_len << ", kv " << p.kv_len
                 << ", head_dim " << p.head_dim << (p.causal ? ", causal from " : ", full, ") << p.q_start
                 << (split_keys ? ", split keys: " : ": ") << check.text());
    REQUIRE(check.ok);
  }
}
void check(const AttentionShape& shape, uint64_t seed) {
  AttentionCase<bfloat16> c(shape, seed);
  check(c);
}

// Copies [heads, length, D] into [heads, capacity, D] whose other rows hold `rest`.
std::vector<bfloat16> with_room(const std::vector<bfloat16>& values, int heads, int length, int capacity, int D,
                                bfloat16 rest) {
  std::vector<bfloat16> result(size_t(heads) * size_t(capacity * D), rest);
  for (int h = 0; h < heads; ++h)
    std::copy_n(&values[size_t(h) * size_t(length * D)], length * D, &result[size_t(h) * size_t(capacity * D)]);
  return result;
}

}  // namespace

TEST_CASE("06 Hopper: lengths around the tiles of 64 and 128") {
  uint64_t seed = 200;
  for (int length : thinned<int>({1, 63, 64, 65, 127, 128, 129, 257}))
    check({1, 1, 1, length, length, 128, length % 2 == 0}, ++seed);
  check({1, 1, 1, 128, 128, 64}, ++seed);
  check({1, 1, 1, 129, 129, 256, true}, ++seed);
}

TEST_CASE("06 Hopper: rings that go round several times, causal and full") {
  const int length = thin_tests() ? 300 : 1000;
  check({1, 1, 1, length, length, 128, true}, 220);
  check({1, 1, 1, 130, length, 128}, 221);
  check({1, 1, 1, 66, length, 64, true, length - 66}, 222);
  check({1, 1, 1, 66, length, 256, true, length - 66}, 223);
}

TEST_CASE("06 Hopper: 2, 4 and 8 heads share a tile, 3 of 7 do not; some rows of it are beyond the queries") {
  const int heads[][2] = {{8, 2}, {6, 1}, {16, 1}, {7, 1}, {4, 4}};
  for (const auto& pair : heads) check({2, pair[0], pair[1], 21, 140, 64, true, 119}, uint64_t(230 + pair[0]));
  check({1, 8, 2, 77, 77, 128, true}, 250);
}

TEST_CASE("06 Hopper: padding over several tiles, with the causal limit and grouped heads") {
  AttentionCase<bfloat16> c({2, 4, 2, 150, 280, 64, true, 130}, 260);
  std::vector<uint8_t> mask(2 * 280, 1);
  for (size_t i = 0; i < mask.size(); i += 3) mask[i] = 0;
  std::fill_n(mask.begin() + 128, 128, uint8_t(0));  // one whole tile
  std::fill_n(mask.begin() + 280, 280, uint8_t(0));  // and the whole second prompt
  c.hide_keys(mask);
  check(c);
}

TEST_CASE("06 Hopper: NaN in the cache's free rows does not come through, nor are rows behind the output written") {
  if (!device().has_wgmma) return;
  const int heads = 2, q_len = 70, kv_len = 135, capacity = 300, D = 64;
  AttentionCase<bfloat16> plain({1, heads, heads, q_len, kv_len, D}, 270);
  const AttentionReference reference = attention_reference(plain.problem);
  const bfloat16 nan = __float2bfloat16(std::nanf("")), sentinel = __float2bfloat16(-7.f);
  const DeviceBuffer<bfloat16> q(with_room(plain.q.to_host(), heads, q_len, capacity, D, nan)),
      k(with_room(plain.k.to_host(), heads, kv_len, capacity, D, nan)),
      v(with_room(plain.v.to_host(), heads, kv_len, capacity, D, nan));
  DeviceBuffer<bfloat16> out(std::vector<bfloat16>(size_t(heads * capacity * D)));
  Attention<bfloat16> p = plain.problem;
  p.q = q.data();
  p.k = k.data();
  p.v = v.data();
  p.out = out.data();
  p.q_head_stride = p.kv_head_stride = p.out_head_stride = int64_t(capacity) * D;
  p.q_batch_stride = p.kv_batch_stride = p.out_batch_stride = int64_t(heads) * capacity * D;
  for (bool split_keys : {false, true}) {
    out.upload(std::vector<bfloat16>(out.size(), sentinel));
    run(p, split_keys);
    const std::vector<bfloat16> all = out.to_host();
    std::vector<bfloat16> got;
    for (int h = 0; h < heads; ++h) {
      const bfloat16* const rows = &all[size_t(h * capacity * D)];
      got.insert(got.end(), rows, rows + q_len * D);
      for (int i = q_len * D; i < capacity * D; ++i) REQUIRE(to_double(rows[i]) == -7.0);
    }
    const Check check = compare_attention(got, reference, kWeightsAndOutputBfloat16);
    INFO((split_keys ? "split keys: " : "") << check.text());
    REQUIRE(check.ok);
  }
}

TEST_CASE("06 Hopper: scores of 16 384 and of -131 072 in different tiles") {
  // key j scores 16384 in one tile of the three, -131072 elsewhere: whatever tile comes first, those weights are 0
  const int keys = 300, D = 64;
  for (int top_tile : {0, 1, 2}) {
    std::vector<float> q(D, 0.f), k(size_t(keys) * D, 0.f), v(size_t(keys) * D, 100.f);
    q[0] = 16384.f;
    double want = 0;
    int top_keys = 0;
    for (int j = 0; j < keys; ++j) {
      const bool top = j / 128 == top_tile;
      k[size_t(j) * D] = top ? 1.f : -8.f;
      if (!top) continue;
      ++top_keys;
      want += j % 4;
      for (int d = 0; d < D; ++d) v[size_t(j) * D + size_t(d)] = float(j % 4);
    }
    want /= top_keys;
    AttentionCase<bfloat16> c({1, 1, 1, 1, keys, D}, q, k, v);
    c.problem.scale = 1.f;
    if (!device().has_wgmma) continue;
    for (bool split_keys : {false, true}) {
      c.out.poison();
      run(c.problem, split_keys);
      INFO("tile " << top_tile << (split_keys ? ", split keys" : ""));
      for (bfloat16 got : c.out.to_host()) REQUIRE(std::fabs(to_double(got) - want) <= 0.01 * want);
    }
  }
}

TEST_CASE("06 Hopper: the form that callers use, and what it refuses") {
  AttentionCase<bfloat16> c({1, 4, 2, 40, 40, 128, true}, 280);
  Stream stream;
  if (!device().has_wgmma) {
    REQUIRE_THROWS_AS(attention_fused_sm90(stream, c.problem), EnvironmentError);
    return;
  }
  attention_fused_sm90(stream, c.problem);
  stream.synchronize();
  REQUIRE(compare_attention(c.out.to_host(), attention_reference(c.problem), kWeightsAndOutputBfloat16).ok);
  c.problem.head_dim = 96;
  REQUIRE_THROWS_AS(attention_fused_sm90(stream, c.problem), BadInput);
}
