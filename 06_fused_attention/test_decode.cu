// The decode form: splits, groups, growing texts, graphs.
#include "06_fused_attention/attention_case.hpp"
#include "06_fused_attention/decode.cuh"
#include "06_fused_attention/reference.cuh"
#include "common/catch.hpp"
#include "common/thin_tests.hpp"

namespace {

struct Decode {
  AttentionCase<bfloat16> cache;  // k, v: [kv_heads, capacity, head_dim]
  DeviceBuffer<int> kv_len{1};
  DecodeAttention p;
  Decode(int heads, int kv_heads, int capacity, int head_dim, uint64_t seed)
      : cache({1, heads, kv_heads, 1, capacity, head_dim}, seed) {
    p = DecodeAttention{cache.q.data(), cache.k.data(), cache.v.data(), cache.out.data(), kv_len.data(),
                        heads,          kv_heads,       head_dim,       capacity,         cache.problem.scale};
  }
  // Runs for the first `keys` positions and compares.
  void check(DecodeScratch& scratch, int keys, bool pdl = false) {
    kv_len.upload({keys});
    cache.out.poison();
    Stream stream;
    attention_decode(stream, p, scratch, pdl);
    stream.synchronize();
    Attention<bfloat16> whole = cache.problem;
    whole.kv_len = keys;
    const Check check = compare_attention(cache.out.to_host(), attention_reference(whole), kOutputBfloat16);
    INFO(p.heads << "/" << p.kv_heads << " heads, head_dim " << p.head_dim << ", " << keys << " of " << p.capacity
                 << " keys, " << scratch.splits << " splits: " << check.text());
    REQUIRE(check.ok);
  }
};

}  // namespace

TEST_CASE("06 decode: every group size, 1 to 8 and beyond one block's, at every head_dim") {
  const int heads_of[][2] = {{2, 2}, {4, 2}, {3, 1}, {8, 2}, {5, 1}, {6, 1}, {14, 2}, {8, 1}, {12, 1}};
  for (int head_dim : {64, 128, 256})
    for (const auto& heads : heads_of) {
      Decode d(heads[0], heads[1], 90, head_dim, 200 + uint64_t(heads[0]));
      DecodeScratch scratch(heads[0], heads[1], head_dim, 90, 3);
      d.check(scratch, 77);
    }
}

TEST_CASE("06 decode: any number of keys over any number of splits") {
  Decode d(6, 2, 300, 64, 210);
  for (int splits : thinned<int>({1, 2, 5, 64})) {
    DecodeScratch scratch(6, 2, 64, 300, splits);
    for (int keys : {1, 2, 63, 64, 65, 127, 129, 299, 300}) d.check(scratch, keys);
  }
  Decode wide(8, 2, 70, 128, 211);
  DecodeScratch scratch(8, 2, 128, 70);
  for (int keys : {1, 31, 32, 33, 70}) wide.check(scratch, keys, true);
  Decode many(2, 1, 1021, 256, 212);  // more than 32 splits with keys: the sum over splits takes a second round
  DecodeScratch most(2, 1, 256, 1021, 64);
  for (int keys : {513, 529, 1021}) many.check(most, keys);
}

TEST_CASE("06 decode: long texts") {
  const std::vector<int> lengths =  // 900 and 20000: splits that are no whole steps
      large_tests() ? std::vector<int>{900, 1000, 4097, 20000, 32768, 33000} : std::vector<int>{900, 1000, 1021};
  for (int head_dim : {64, 128, 256}) {
    Decode d(8, 2, lengths.back(), head_dim, 220);
    DecodeScratch scratch(8, 2, head_dim, lengths.back());
    for (int keys : lengths) d.check(scratch, keys);
  }
}

TEST_CASE("06 decode: no key gives 0, more than the capacity is read as the capacity") {
  Decode d(4, 2, 40, 64, 230);
  DecodeScratch scratch(4, 2, 64, 40, 4);
  Stream stream;
  for (int keys : {0, -3}) {
    d.kv_len.upload({keys});
    d.cache.out.poison();
    attention_decode(stream, d.p, scratch);
    stream.synchronize();
    for (bfloat16 v : d.cache.out.to_host()) REQUIRE(__bfloat162float(v) == 0.f);
  }
  d.check(scratch, 40);
  const auto full = d.cache.out.to_host();
  d.kv_len.upload({41});
  attention_decode(stream, d.p, scratch);
  stream.synchronize();
  REQUIRE(compare_exact(d.cache.out.to_host(), full, 64).ok);
}

TEST_CASE("06 decode: positions behind the text may hold anything") {
  Decode d(4, 2, 80, 64, 240);
  auto k = d.cache.k.to_host(), v = d.cache.v.to_host();
  const int keys = 45;
  for (size_t head = 0; head < 2; ++head)
    for (size_t i = (head * 80 + keys) * 64; i < (head + 1) * 80 * 64; ++i)
      k[i] = v[i] = __float2bfloat16(std::nanf(""));
  d.cache.k.upload(k);
  d.cache.v.upload(v);
  DecodeScratch scratch(4, 2, 64, 80, 2);
  d.check(scratch, keys);
}

TEST_CASE("06 decode: scores near -131072 do not meet a finite minus infinity") {
  const int keys = 70, D = 64;
  std::vector<float> q(D, 0.f), k(size_t(keys) * D, 0.f), v(size_t(keys) * D, 3.f);
  q[0] = 16384.f;
  for (int j = 0; j < keys; ++j) k[size_t(j) * D] = -8.f;
  AttentionCase<bfloat16> c({1, 1, 1, 1, keys, D}, q, k, v);
  DeviceBuffer<int> kv_len(std::vector<int>{keys});
  DecodeScratch scratch(1, 1, D, keys, 3);
  Stream stream;
  attention_decode(stream, {c.q.data(), c.k.data(), c.v.data(), c.out.data(), kv_len.data(), 1, 1, D, keys, 1.f},
                   scratch);
  stream.synchronize();
  for (bfloat16 got : c.out.to_host()) REQUIRE(__bfloat162float(got) == 3.f);
}

TEST_CASE("06 decode: one captured graph, replayed while the text grows, equals eager calls bit for bit") {
  Decode d(6, 2, 200, 128, 250);
  DecodeScratch scratch(6, 2, 128, 200, 5);
  Stream stream;
  d.kv_len.upload({1});
  const Graph graph = Graph::capture(stream, [&] { attention_decode(stream, d.p, scratch); });
  REQUIRE(graph.nodes() == 1);
  std::vector<bfloat16> before;
  for (int keys : {1, 2, 31, 32, 33, 90, 160, 161, 200, 7}) {  // at the end a second, shorter text
    d.kv_len.upload({keys});
    d.cache.out.poison();
    graph.replay(stream);
    stream.synchronize();
    const auto replayed = d.cache.out.to_host();
    d.cache.out.poison();
    attention_decode(stream, d.p, scratch);
    stream.synchronize();
    REQUIRE(compare_exact(replayed, d.cache.out.to_host(), 128).ok);
    if (!before.empty()) REQUIRE_FALSE(compare_exact(replayed, before, 128).ok);  // kv_len is not baked in
    before = replayed;
    d.check(scratch, keys);
  }
}

TEST_CASE("06 decode: a scratch for another shape is refused") {
  Decode d(4, 2, 40, 64, 260);
  Stream stream;
  DecodeScratch other_dim(4, 2, 128, 40), other_heads(4, 4, 64, 40);
  REQUIRE_THROWS_AS(attention_decode(stream, d.p, other_dim), BadInput);
  REQUIRE_THROWS_AS(attention_decode(stream, d.p, other_heads), BadInput);
  REQUIRE_THROWS_AS(DecodeScratch(4, 3, 64, 40), BadInput);
  REQUIRE_THROWS_AS(DecodeScratch(4, 2, 64, 0), BadInput);
  REQUIRE_THROWS_AS(DecodeScratch(4, 2, 64, 40, kMostSplits + 1), BadInput);
}

TEST_CASE("06 decode: the CUDA-core kernel, every head_dim and group") {
  const int heads_of[][2] = {{2, 2}, {4, 2}, {3, 1}, {14, 2}, {12, 1}};
  for (int head_dim : {64, 128, 256})
    for (const auto& heads : heads_of) {
      Decode d(heads[0], heads[1], 90, head_dim, 270 + uint64_t(heads[0]));
      DecodeScratch scratch(heads[0], heads[1], head_dim, 90, 3);
      scratch.tensor_cores = false;
      for (int keys : {1, 77}) d.check(scratch, keys);
    }
}

TEST_CASE("06 decode: the longest text of one block, and one key more") {
  Decode d(4, 1, kAloneKeys + 200, 128, 280);
  DecodeScratch scratch(4, 1, 128, kAloneKeys + 200);
  REQUIRE(scratch.splits > 1);
  REQUIRE(DecodeScratch(4, 1, 128, kAloneKeys).splits == (scratch.tensor_cores ? 1 : scratch.splits));
  for (int keys : {kAloneKeys - 1, kAloneKeys, kAloneKeys + 1, kAloneKeys + 129}) d.check(scratch, keys);
  DecodeScratch many(4, 1, 128, kAloneKeys + 200, 64);  // the same keys over more splits than a thread takes at once
  for (int keys : {kAloneKeys, kAloneKeys + 200}) d.check(many, keys);
}

namespace {

// What the projection in front of the attention does: q and the newest row.
__global__ void append_kernel(DecodeAttention p, const bfloat16* q, bfloat16* k, bfloat16* v, const bfloat16* new_k,
                              const bfloat16* new_v) {
  pdl_launch_dependents();
  pdl_wait();
  const int at = *p.kv_len - 1, D = p.head_dim;
  for (int i = threadIdx.x; i < p.heads * D; i += blockDim.x) const_cast<bfloat16*>(p.q)[i] = q[i];
  for (int i = threadIdx.x; i < p.kv_heads * D; i += blockDim.x) {
    const size_t to = (size_t(i / D) * p.capacity + at) * D + i % D;
    k[to] = new_k[to];
    v[to] = new_v[to];
  }
}
__global__ void longer_kernel(int* kv_len) { ++*kv_len; }

}  // namespace

TEST_CASE("06 decode: keys ahead of the wait, step after step, equal plain launches bit for bit") {
  const int capacity = large_tests() ? 1300 : 160, first = large_tests() ? 0 : 118, D = 128;
  Decode d(8, 2, capacity, D, 290);
  const auto all_k = d.cache.k.to_host(), all_v = d.cache.v.to_host();
  DeviceBuffer<bfloat16> q(d.cache.q.to_host()), new_k(all_k), new_v(all_v);
  // One split: the newest row is in the block's second turn too, which is fetched ahead as well.
  DecodeScratch scratch(8, 2, D, capacity, large_tests() ? 0 : 1);
  Stream stream;
  // The cache begins with its first rows only; every step appends one.
  const auto outputs = [&](bool ahead) {
    auto k = all_k, v = all_v;
    for (size_t i = 0; i < k.size(); ++i)
      if (int(i / D % capacity) >= first) k[i] = v[i] = __float2bfloat16(std::nanf(""));
    d.cache.k.upload(k);
    d.cache.v.upload(v);
    d.cache.q.poison();
    d.kv_len.upload({first});
    DecodeAttention p = d.p;
    p.keys_settled = ahead;
    const auto step = [&] {
      launch(longer_kernel, dim3(1), dim3(1), on(stream), d.kv_len.data());  // never under dependent launch
      launch(append_kernel, dim3(1), dim3(128), on(stream).pdl(ahead), p, q.data(), d.cache.k.data(), d.cache.v.data(),
             new_k.data(), new_v.data());
      attention_decode(stream, p, scratch, ahead);
    };
    std::vector<std::vector<bfloat16>> all;
    const Graph graph = Graph::capture(stream, step);
    d.kv_len.upload({first});
    for (int keys = first; keys < capacity; ++keys) {
      if (keys % 2 == 0)
        graph.replay(stream);
      else
        step();
      if (keys % 3 != 0) continue;  // the others without a stop, one step behind the other
      stream.synchronize();
      all.push_back(d.cache.out.to_host());
    }
    return all;
  };
  const auto plain = outputs(false), ahead = outputs(true);
  REQUIRE(plain.size() == ahead.size());
  for (size_t i = 0; i < plain.size(); ++i)
    REQUIRE(std::memcmp(plain[i].data(), ahead[i].data(), plain[i].size() * sizeof(bfloat16)) == 0);
  d.check(scratch, capacity);
}
