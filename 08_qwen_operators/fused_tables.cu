// 08 · each fused form beside the kernels it replaces, and the chain of a whole decode step without attention
#include "05_online_softmax/argmax.cuh"
#include "07_positional_encoding/rope.cuh"
#include "08_qwen_operators/argmax_finish.cuh"
#include "08_qwen_operators/article.hpp"
#include "08_qwen_operators/gemv.cuh"
#include "08_qwen_operators/tables.hpp"
#include "08_qwen_operators/weight_pool.cuh"
#include "common/random.hpp"
#include "common/verify.hpp"

namespace {

constexpr float kEps = 1e-6f;
const DecoderShape& shape_here() { return device().gpu ? kArticle : kSmall; }

// The weights of a whole decoder, and what a step works on. The first copies in the pools are the layers; where that is
// not four times the L2 there are more, for the single pairs.
struct Decoder {
  DecoderShape s;
  WeightPool w_qkv, w_o, w_gate, w_up, w_down, lm_head;
  DeviceBuffer<bfloat16> norm, x, qkv, q, wide, up, delta, k_cache, v_cache;
  DeviceBuffer<float> residual, logits;
  DeviceBuffer<float2> table;
  DeviceBuffer<int> position, index;
  DeviceBuffer<BlockBest> best;
  ArgmaxScratch argmax_scratch;
  std::vector<float> residual_host;
  int capacity = 0;

  int width() const { return s.heads * s.head_dim; }
  HeadSplit split() const { return {s.heads, s.kv_heads, s.head_dim}; }
  KvCache cache() const { return {k_cache.data(), v_cache.data(), capacity}; }
  void reset() {
    residual.upload(residual_host);
    for (auto* b : {&x, &qkv, &q, &wide, &up, &k_cache, &v_cache}) b->poison();
    logits.poison();
    index.poison();
    Stream stream;
    fill_random_bf16(stream, delta.data(), delta.size(), 77);
    fill_random_bf16(stream, wide.data(), wide.size(), 78);
    fill_random_bf16(stream, q.data(), q.size(), 79);
    stream.synchronize();
  }

  // The parts, kernel by kernel.
  void norm_to_x(Stream& st) { rms_norm(st, residual.data(), norm.data(), x.data(), 1, s.hidden, kEps); }
  void project(Stream& st, const DeviceBuffer<bfloat16>& in, const bfloat16* W, DeviceBuffer<bfloat16>& out, int N,
               int K) {
    gemv(st, in.data(), W, static_cast<const bfloat16*>(nullptr), out.data(), N, K);
  }
  void add_delta(Stream& st) { residual_add(st, residual.data(), delta.data(), size_t(s.hidden)); }
  void rope_store(Stream& st) {
    qk_norm_rope_store(
        st, {qkv.data(), nullptr, nullptr, table.data(), position.data(), q.data(), cache(), split(), s.head_dim, kEps},
        1);
  }
  void qkv_parts(Stream& st, int l) {
    norm_to_x(st), project(st, x, w_qkv.at(l), qkv, s.qkv(), s.hidden), rope_store(st);
  }
  void o_parts(Stream& st, int l) { project(st, q, w_o.at(l), delta, s.hidden, width()), add_delta(st); }
  void mlp_parts(Stream& st, int l) {
    norm_to_x(st), project(st, x, w_gate.at(l), wide, s.intermediate, s.hidden),
        project(st, x, w_up.at(l), up, s.intermediate, s.hidden);
    act_mul(st, wide.data(), up.data(), wide.data(), 1, s.intermediate, s.intermediate);
  }
  void down_parts(Stream& st, int l) {
    project(st, wide, w_down.at(l), delta, s.hidden, s.intermediate), add_delta(st);
  }
  void head_parts(Stream& st) {
    norm_to_x(st);
    gemv(st, x.data(), lm_head.at(0), static_cast<const bfloat16*>(nullptr), logits.data(), s.vocabulary, s.hidden);
    argmax(st, logits.data(), s.vocabulary, index.data(), argmax_scratch);
  }
  // The fused forms.
  void qkv_fused(Stream& st, int l, bool pdl) {
    // nothing here writes the position: it is settled
    norm_gemv_rope_store(st, residual.data(), norm.data(), kEps, w_qkv.at(l),
                         RopeStoreOutput{nullptr, table.data(), position.data(), q.data(), cache(), split(), true},
                         s.hidden, pdl);
  }
  void o_fused(Stream& st, int l, bool pdl) {
    gemv_add(st, q.data(), w_o.at(l), residual.data(), s.hidden, width(), pdl);
  }
  void mlp_fused(Stream& st, int l, bool pdl) {
    norm_gemv_swiglu(st, residual.data(), norm.data(), kEps, w_gate.at(l), w_up.at(l), wide.data(), s.intermediate,
                     s.hidden, pdl);
  }
  void down_fused(Stream& st, int l, bool pdl) {
    gemv_add(st, wide.data(), w_down.at(l), residual.data(), s.hidden, s.intermediate, pdl);
  }
  void head_fused(Stream& st, bool pdl) {
    rms_norm(st, residual.data(), norm.data(), x.data(), 1, s.hidden, kEps, pdl);
    gemv_logits(st, x.data(), lm_head.at(0), logits.data(), best.data(), s.vocabulary, s.hidden, pdl);
    argmax_finish(st, best.data(), int(best.size()), index.data(), pdl);
  }
};

std::shared_ptr<Decoder> make_decoder(const Shape& shape, uint64_t seed) {
  auto m = std::make_shared<Decoder>();
  const DecoderShape& s = m->s = shape_here();
  m->capacity = shape[0] + 1;
  const auto filled = [&](size_t count) {
    DeviceBuffer<bfloat16> b(count);
    Stream stream;
    fill_random_bf16(stream, b.data(), count, ++seed);
    stream.synchronize();
    return b;
  };
  m->w_qkv = WeightPool(s.qkv(), s.hidden, seed + 20, s.layers),
  m->w_o = WeightPool(s.hidden, m->width(), seed + 21, s.layers);
  m->w_gate = WeightPool(s.intermediate, s.hidden, seed + 22, s.layers),
  m->w_up = WeightPool(s.intermediate, s.hidden, seed + 23, s.layers);
  m->w_down = WeightPool(s.hidden, s.intermediate, seed + 24, s.layers),
  m->lm_head = WeightPool(s.vocabulary, s.hidden, seed + 25);
  m->norm = filled(s.hidden), m->x = filled(s.hidden), m->qkv = filled(s.qkv()), m->q = filled(m->width());
  m->wide = filled(s.intermediate), m->up = filled(s.intermediate), m->delta = filled(s.hidden);
  const size_t cache = size_t(s.kv_heads) * m->capacity * s.head_dim;
  m->k_cache = DeviceBuffer<bfloat16>(cache), m->v_cache = DeviceBuffer<bfloat16>(cache);
  m->residual_host = random_normal_with_outliers(s.hidden, seed);
  m->residual = DeviceBuffer<float>(m->residual_host), m->logits = DeviceBuffer<float>(s.vocabulary);
  m->table = DeviceBuffer<float2>(size_t(m->capacity) * (s.head_dim / 2));
  m->position = DeviceBuffer<int>(std::vector<int>{shape[0]}), m->index = DeviceBuffer<int>(1);
  m->best = DeviceBuffer<BlockBest>(gemv_logits_blocks(s.vocabulary));
  Stream stream;
  rope_table(stream, m->table.data(), m->capacity, s.head_dim, 1e6);
  stream.synchronize();
  return m;
}

// What a part of the step leaves behind, as numbers.
using Result = std::function<std::vector<double>(Decoder&)>;
template <class T>
std::vector<double> numbers(const DeviceBuffer<T>& b) {
  std::vector<double> all;
  for (const T& v : b.to_host()) all.push_back(to_double(v));
  return all;
}

struct Pair {
  const char* name;
  double bytes;      // least to read
  double tolerance;  // of the largest result
  Result result;
  std::function<void(Decoder&, Stream&, int layer)> parts;
  std::function<void(Decoder&, Stream&, int layer, bool pdl)> fused;
};

// The parts were checked against double one by one; here they are the reference of the fused form. `tolerance` counts the
// bfloat16 roundings that one road has and the other has not.
Problem build(const Pair& pair, const Shape& shape, uint64_t seed) {
  const auto m = make_decoder(shape, seed);
  Problem p;
  p.shape = fmt::format("{} at position {}", pair.name, shape[0]);
  p.dtype = "bf16";
  p.bytes = pair.bytes;
  p.flop = pair.bytes;  // a multiplication and an addition for two bytes of weight
  p.copies = std::max({m->w_qkv.copies(), m->w_o.copies(), m->w_gate.copies(), m->w_down.copies()});
  p.poison = [m] { m->reset(); };
  p.buffers = m;
  m->reset();
  Stream stream;
  pair.parts(*m, stream, 0);
  stream.synchronize();
  const std::vector<double> want = pair.result(*m);
  double largest = 0;
  for (double v : want)
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  const auto add = [&](const char* name, Rung::Role role, std::function<void(Stream&, int)> run) {
    Rung rung;
    rung.name = std::string("08 ") + name, rung.role = role, rung.run = std::move(run);
    rung.check = [=] { return compare(pair.result(*m), want, pair.tolerance * largest, want.size()); };
    p.rungs.push_back(std::move(rung));
  };
  add("kernel by kernel", Rung::kBaseline, [=](Stream& st, int l) { pair.parts(*m, st, l); });
  add("fused", Rung::kRung, [=](Stream& st, int l) { pair.fused(*m, st, l, false); });
  add("fused, dependent launch", Rung::kRung, [=](Stream& st, int l) { pair.fused(*m, st, l, true); });
  p.rungs.back().note = floor_note(pair.bytes);
  return p;
}

std::vector<Pair> pairs() {
  const DecoderShape& s = shape_here();
  const double H = s.hidden, I = s.intermediate, width = s.heads * s.head_dim;
  const double ulp = kBfloat16Ulp;
  const Result residual = [](Decoder& m) { return numbers(m.residual); };
  const auto layers = [](Decoder& m, Stream& st, auto each) {
    for (int l = 0; l < m.s.layers; ++l) each(m, st, l);
  };
  return {
      {"residual add + RMSNorm", 12 * H, 0, [](Decoder& m) { return numbers(m.x); },
       [](Decoder& m, Stream& st, int) { m.add_delta(st), m.norm_to_x(st); },
       [](Decoder& m, Stream& st, int, bool pdl) {
         residual_add_rms_norm(st, m.residual.data(), m.delta.data(), m.norm.data(), m.x.data(), 1, m.s.hidden, kEps,
                               pdl);
       }},
      {"RMSNorm + qkv + RoPE + KV store", 2.0 * s.qkv() * H, 2 * ulp, [](Decoder& m) { return numbers(m.q); },
       [](Decoder& m, Stream& st, int l) { m.qkv_parts(st, l); },
       [](Decoder& m, Stream& st, int l, bool pdl) { m.qkv_fused(st, l, pdl); }},
      {"o + residual", 2 * H * width, 2 * ulp, residual, [](Decoder& m, Stream& st, int l) { m.o_parts(st, l); },
       [](Decoder& m, Stream& st, int l, bool pdl) { m.o_fused(st, l, pdl); }},
      {"RMSNorm + gate + up + SiLU", 4 * I * H, 4 * ulp, [](Decoder& m) { return numbers(m.wide); },
       [](Decoder& m, Stream& st, int l) { m.mlp_parts(st, l); },
       [](Decoder& m, Stream& st, int l, bool pdl) { m.mlp_fused(st, l, pdl); }},
      {"down + residual", 2 * I * H, 2 * ulp, residual, [](Decoder& m, Stream& st, int l) { m.down_parts(st, l); },
       [](Decoder& m, Stream& st, int l, bool pdl) { m.down_fused(st, l, pdl); }},
      {"RMSNorm + lm_head + argmax", 2.0 * s.vocabulary * H, 2 * ulp, [](Decoder& m) { return numbers(m.logits); },
       [](Decoder& m, Stream& st, int) { m.head_parts(st); },
       [](Decoder& m, Stream& st, int, bool pdl) { m.head_fused(st, pdl); }},
      {"a whole step without attention", s.weight_bytes(), 0.05, [](Decoder& m) { return numbers(m.logits); },
       [layers](Decoder& m, Stream& st, int) {
         layers(m, st, [](Decoder& d, Stream& t, int l) {
           d.qkv_parts(t, l), d.o_parts(t, l), d.mlp_parts(t, l), d.down_parts(t, l);
         });
         m.head_parts(st);
       },
       [layers](Decoder& m, Stream& st, int, bool pdl) {
         layers(m, st, [pdl](Decoder& d, Stream& t, int l) {
           d.qkv_fused(t, l, pdl), d.o_fused(t, l, pdl), d.mlp_fused(t, l, pdl), d.down_fused(t, l, pdl);
         });
         m.head_fused(st, pdl);
       }},
  };
}

}  // namespace

std::vector<Step> fused_tables() {
  std::vector<Step> steps;
  for (const Pair& pair : pairs()) {
    Step step;
    step.number = "08";
    step.title = std::string("fused: ") + pair.name;
    step.form = "POSITION";
    step.shapes = {{{256}}};
    step.small_shapes = {{{12}}};
    step.memory_bound = true;
    step.peer_name = "–";
    step.device_bytes = [](const Shape& s) {
      const DecoderShape& d = shape_here();
      const double H = d.hidden, I = d.intermediate;
      return WeightPool::bytes(d.qkv(), H, d.layers) + WeightPool::bytes(H, d.heads * d.head_dim, d.layers) +
             3 * WeightPool::bytes(H, I, d.layers) + WeightPool::bytes(d.vocabulary, H) +
             s[0] * (4.0 * d.kv_heads * d.head_dim + 4.0 * d.head_dim) + 10.0 * d.vocabulary;
    };
    step.build = [pair](const Shape& shape, uint64_t seed) { return build(pair, shape, seed); };
    steps.push_back(std::move(step));
  }
  return steps;
}
