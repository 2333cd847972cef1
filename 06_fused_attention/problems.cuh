// 06 · the problems that main.cu lists rungs for: inputs, reference, and what a rung needs to be checked and timed.
#pragma once
#include <functional>

#include "06_fused_attention/attention_case.hpp"
#include "06_fused_attention/decode.cuh"
#include "06_fused_attention/reference.cuh"
#include "common/step.hpp"

// One problem in one or more copies that hold the same values.
template <class T>
struct AttentionProblem {
  std::vector<AttentionCase<T>> cases;
  DeviceBuffer<int> kv_len;  // for the decode form
  AttentionReference reference;
  Problem problem;

  AttentionProblem(const AttentionShape& s, int copies, uint64_t seed) : kv_len(std::vector<int>{s.kv_len}) {
    const auto values = [&](int heads, int length, int i, float size) {
      auto v = random_uniform(size_t(s.batch) * heads * length * s.head_dim, seed + i);
      for (float& x : v) x *= size;
      return v;
    };
    // scores with a deviation of about 2: neither flat nor all on one key
    const auto q = values(s.heads, s.q_len, 0, 6.f), k = values(s.kv_heads, s.kv_len, 1, 1.f),
               v = values(s.kv_heads, s.kv_len, 2, 1.f);
    for (int i = 0; i < copies; ++i) cases.emplace_back(s, q, k, v);
    reference = attention_reference(cases[0].problem);
    problem.dtype = sizeof(T) == 4 ? "fp32" : "bf16";
    problem.flop = cases[0].problem.flop();
    problem.bytes = double(sizeof(T)) * (2.0 * double(q.size()) + double(k.size()) + double(v.size()));
    problem.copies = copies;
  }
  DecodeAttention decode(int copy) const {
    const Attention<T>& p = cases[copy].problem;
    return {p.q, p.k, p.v, p.out, kv_len.data(), p.heads, p.kv_heads, p.head_dim, p.kv_len, p.scale};
  }
};

// Collects the rungs of one problem.
template <class T>
class AttentionRungs {
 public:
  AttentionRungs(const AttentionShape& shape, int copies, uint64_t seed)
      : data_(std::make_shared<AttentionProblem<T>>(shape, copies, seed)) {
    data_->problem.poison = [data = data_.get()] { data->cases[0].out.poison(); };
  }
  // `run` gets the stream, the problem and the number of the copy. `workspace` is in bytes.
  Rung& add(const std::string& name, Rung::Role role, AttentionRounding rounding,
            std::function<void(Stream&, const AttentionProblem<T>&, int)> run, double workspace = 0) {
    Rung rung;
    rung.name = name;
    rung.role = role;
    rung.workspace = workspace;
    rung.run = [run, data = data_.get()](Stream& stream, int copy) { run(stream, *data, copy); };
    rung.check = [rounding, data = data_.get()] {
      return compare_attention(data->cases[0].out.to_host(), data->reference, rounding);
    };
    data_->problem.rungs.push_back(std::move(rung));
    return data_->problem.rungs.back();
  }
  Problem done(const std::string& shape) {
    Problem problem = data_->problem;
    problem.shape = shape;
    problem.buffers = data_;
    return problem;
  }

 private:
  std::shared_ptr<AttentionProblem<T>> data_;
};

// Bytes of device memory a problem takes, with its reference and a score matrix where `unfused`.
inline double attention_bytes(const AttentionShape& s, double element, double copies, bool unfused) {
  const double q = double(s.batch) * s.heads * s.q_len * s.head_dim,
               kv = double(s.batch) * s.kv_heads * s.kv_len * s.head_dim;
  return copies * element * (2 * q + 2 * kv) + 16 * q + (unfused ? 4.0 * s.q_len * s.kv_len : 0);
}

// What --shape means: BxHxGxLxD is self-attention over L positions, HxGxLxD one query against L cached ones.
inline AttentionShape square(const Shape& s, bool causal) { return {s[0], s[1], s[2], s[3], s[3], s[4], causal, 0}; }
inline AttentionShape one_query(const Shape& s) { return {1, s[0], s[1], 1, s[2], s[3], false, 0}; }

// So many copies of the cache that a run finds none of its keys in the L2.
inline int decode_copies(const Shape& s) {
  return int(std::min(64.0, std::ceil(4.0 * double(device().l2_bytes) / (4.0 * s[1] * s[2] * s[3]))) + 1);
}
