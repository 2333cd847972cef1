// 08 · the 21 operators of the article's list, each against its plain reference
#include <fmt/format.h>

#include <cstdlib>

#include "07_positional_encoding/rope.cuh"
#include "08_qwen_operators/article.hpp"
#include "08_qwen_operators/attention_parts.cuh"
#include "08_qwen_operators/gemv.cuh"
#include "08_qwen_operators/linear_mma.cuh"
#include "08_qwen_operators/operator_references.hpp"
#include "08_qwen_operators/tables.hpp"
#include "08_qwen_operators/weight_pool.cuh"

namespace {

struct Accuracy {
  std::string name, shape;
  Check check;
};
std::vector<Accuracy> accuracies;

constexpr double kTheta = 1e6;
constexpr float kEps = 1e-6f;

// One layer's tensors for `tokens` tokens that end at position context − 1.
struct Layer {
  DecoderShape shape;
  int tokens, context;
  WeightPool w_qkv, w_o, w_gate, w_up, w_down, lm_head;
  DeviceBuffer<bfloat16> norm;
  DeviceBuffer<bfloat16> x, qkv, q, k, wide, up, y_hidden, y_wide, y_qkv, k_cache, v_cache, k_filled, v_filled,
      attended;
  DeviceBuffer<float> residual, sum, scores, weights_in, logits;
  DeviceBuffer<float2> table, table_out;
  DeviceBuffer<int> positions;
  std::vector<float> residual_host, scores_host;

  HeadSplit split() const { return {shape.heads, shape.kv_heads, shape.head_dim}; }
  KvCache cache() const { return {k_cache.data(), v_cache.data(), context}; }
  AttentionParts parts(float* s) const {
    return {q.data(),         {k_filled.data(), v_filled.data(), context}, s, attended.data(), split(), tokens, context,
            context - tokens, 1.f / std::sqrt(float(shape.head_dim))};
  }
  // What operators change in place starts anew.
  void reset() {
    sum.upload(residual_host);
    scores.upload(scores_host);
    for (auto* b : {&qkv, &q, &k}) refill(*b, 31);
    for (auto* b : {&y_hidden, &y_wide, &y_qkv, &k_cache, &v_cache, &attended}) b->poison();
    logits.poison();
    table_out.poison();
  }
  static void refill(DeviceBuffer<bfloat16>& b, uint64_t seed) {
    Stream stream;
    fill_random_bf16(stream, b.data(), b.size(), seed);
    stream.synchronize();
  }
};

std::shared_ptr<Layer> make_layer(const DecoderShape& s, int tokens, int context, uint64_t seed) {
  auto l = std::make_shared<Layer>();
  l->shape = s, l->tokens = tokens, l->context = context;
  l->w_qkv = WeightPool(s.qkv(), s.hidden, seed), l->w_o = WeightPool(s.hidden, s.heads * s.head_dim, seed + 10);
  l->w_gate = WeightPool(s.intermediate, s.hidden, seed + 11),
  l->w_up = WeightPool(s.intermediate, s.hidden, seed + 12);
  l->w_down = WeightPool(s.hidden, s.intermediate, seed + 13),
  l->lm_head = WeightPool(s.vocabulary, s.hidden, seed + 14);
  const size_t T = tokens, cache = size_t(s.kv_heads) * context * s.head_dim;
  const auto sized = [](DeviceBuffer<bfloat16>& b, size_t count, uint64_t fill) {
    b = DeviceBuffer<bfloat16>(count);
    if (fill > 0) Layer::refill(b, fill);
  };
  sized(l->norm, s.hidden, seed + 2), sized(l->x, T * s.hidden, seed + 3), sized(l->wide, T * s.intermediate, seed + 4);
  sized(l->up, T * s.intermediate, seed + 5), sized(l->k_filled, cache, seed + 6), sized(l->v_filled, cache, seed + 7);
  sized(l->qkv, T * s.qkv(), 0), sized(l->q, T * s.heads * s.head_dim, 0), sized(l->k, T * s.kv_heads * s.head_dim, 0);
  sized(l->y_hidden, T * s.hidden, 0), sized(l->y_wide, T * s.intermediate, 0), sized(l->y_qkv, T * s.qkv(), 0);
  sized(l->attended, T * s.heads * s.head_dim, 0), sized(l->k_cache, cache, 0), sized(l->v_cache, cache, 0);
  l->residual_host = random_normal_with_outliers(T * s.hidden, seed + 8);
  l->scores_host = random_uniform(T * s.heads * context, seed + 9);
  l->residual = DeviceBuffer<float>(l->residual_host), l->sum = DeviceBuffer<float>(l->residual_host);
  l->scores = DeviceBuffer<float>(l->scores_host), l->weights_in = DeviceBuffer<float>(l->scores_host);
  l->logits = DeviceBuffer<float>(s.vocabulary);
  l->table = DeviceBuffer<float2>(size_t(context) * (s.head_dim / 2)),
  l->table_out = DeviceBuffer<float2>(l->table.size());
  Stream stream;
  rope_table(stream, l->table.data(), context, s.head_dim, kTheta);
  stream.synchronize();
  std::vector<int> positions(T);
  for (int t = 0; t < tokens; ++t) positions[t] = context - tokens + t;
  l->positions = DeviceBuffer<int>(positions);
  l->reset();
  return l;
}

// One token goes through the decode kernels, several through the prefill ones, as step 09 does it.
template <class Out>
void project(Stream& s, const bfloat16* x, const bfloat16* W, Out* y, int tokens, int N, int K) {
  if (tokens == 1)
    gemv(s, x, W, static_cast<const bfloat16*>(nullptr), y, N, K);
  else
    linear(s, x, W, y, tokens, N, K);
}

Problem build(const DecoderShape& s, const Shape& shape, uint64_t seed) {
  const int T = shape[0], context = shape[1], H = s.hidden, I = s.intermediate, d = s.head_dim;
  if (T > context)
    throw BadInput(fmt::format("--shape {}: {} tokens cannot end at position {}", shape.text(), T, context - 1));
  const auto l = make_layer(s, T, context, seed);
  Problem p;
  p.shape = fmt::format("{} token{}, context {}", T, T == 1 ? "" : "s", context);
  p.dtype = "bf16";
  p.copies = std::max({l->w_qkv.copies(), l->w_o.copies(), l->w_gate.copies(), l->w_down.copies()});
  p.poison = [l] { l->reset(); };
  p.buffers = l;
  const auto add = [&](const char* name, double flop, double bytes, std::function<void(Stream&, int)> run,
                       std::function<Check()> check) {
    Rung rung;
    rung.name = name, rung.flop = flop, rung.bytes = bytes, rung.run = std::move(run), rung.note = floor_note(bytes);
    rung.check = [check, name = rung.name, of = p.shape] {
      accuracies.push_back({name, of, check()});
      return accuracies.back().check;
    };
    p.rungs.push_back(std::move(rung));
  };
  const auto free_of_cost = [&](const char* name) {
    Rung rung;
    rung.name = name, rung.skip = "an address, no kernel: HeadSplit and HeadView, tested";
    p.rungs.push_back(std::move(rung));
  };
  const auto linear_rung = [&](const char* name, const DeviceBuffer<bfloat16>& x, const WeightPool& W,
                               DeviceBuffer<bfloat16>& y, int N, int K) {
    add(
        name, 2.0 * T * N * K, 2.0 * (double(N) * K + double(T) * (N + K)),
        [=, px = x.data(), py = y.data(), &W](Stream& st, int copy) { project(st, px, W.at(copy), py, T, N, K); },
        [=, px = x.data(), &W, &y] { return check_linear(px, W.at(0), y, T, N, K); });
  };
  const auto norm_rung = [&](const char* name) {
    add(
        name, 4.0 * T * H, 6.0 * T * H + 2.0 * H,
        [=](Stream& st, int) { rms_norm(st, l->residual.data(), l->norm.data(), l->y_hidden.data(), T, H, kEps); },
        [=] { return check_rms_norm(l->residual_host, l->norm.to_host(), l->y_hidden.to_host(), T, H, kEps); });
  };
  const auto residual_rung = [&](const char* name) {
    add(
        name, double(T) * H, 10.0 * T * H,
        [=](Stream& st, int) { residual_add(st, l->sum.data(), l->x.data(), size_t(T) * H); },
        [=] { return check_residual_add(l->residual_host, l->x.to_host(), l->sum.to_host(), H); });
  };
  const auto rope_rung = [&](const char* name, DeviceBuffer<bfloat16>& x, int heads) {
    add(
        name, 3.0 * T * heads * d, 4.0 * T * heads * d + 4.0 * T * d,
        [=, px = x.data()](Stream& st, int) {
          rope_apply(st, px, l->table.data(), l->positions.data(), T, heads, d, d, int64_t(heads) * d,
                     RopePairing::kHalfSplit);
        },
        [=, &x] {
          const auto got = x.to_host();
          Layer::refill(x, 31);  // what it was before
          return check_rope(x.to_host(), got, l->table.to_host(), context - T, T, heads, d);
        });
  };
  const double score_flop = 2.0 * T * s.heads * context * d, kv = 2.0 * s.kv_heads * context * d;
  const double scores = 4.0 * T * s.heads * context, q = 2.0 * T * s.heads * d;

  norm_rung("1 rms_norm");
  linear_rung("2 qkv_proj", l->x, l->w_qkv, l->y_qkv, s.qkv(), H);
  free_of_cost("3 q_reshape_split");
  rope_rung("4 q_rope", l->q, s.heads);
  rope_rung("5 k_rope", l->k, s.kv_heads);
  add(
      "6 qk_score", score_flop, q + kv + scores, [=](Stream& st, int) { qk_score(st, l->parts(l->scores.data())); },
      [=] { return check_scores(l->parts(nullptr), l->q.to_host(), l->k_filled.to_host(), l->scores.to_host()); });
  add(
      "7 causal_mask_softmax", 5.0 * T * s.heads * context, 2 * scores,
      [=](Stream& st, int) { causal_mask_softmax(st, l->parts(l->scores.data())); },
      [=] { return check_softmax(l->parts(nullptr), l->scores_host, l->scores.to_host()); });
  add(
      "8 pv_matmul", score_flop, q + kv + scores,
      [=](Stream& st, int) { pv_matmul(st, l->parts(l->weights_in.data())); },
      [=] { return check_values(l->parts(nullptr), l->scores_host, l->v_filled.to_host(), l->attended.to_host()); });
  free_of_cost("9 attn_reshape_concat");
  linear_rung("10 o_proj", l->q, l->w_o, l->y_hidden, H, s.heads * d);
  residual_rung("11 residual_add");
  norm_rung("12 post_attn_rms_norm");
  linear_rung("13 mlp_gate_proj", l->x, l->w_gate, l->y_wide, I, H);
  linear_rung("14 mlp_up_proj", l->x, l->w_up, l->y_wide, I, H);
  add(
      "15 act_mul", 5.0 * T * I, 6.0 * T * I,
      [=](Stream& st, int) { act_mul(st, l->wide.data(), l->up.data(), l->y_wide.data(), T, I, I); },
      [=] { return check_act_mul(l->wide.to_host(), l->up.to_host(), l->y_wide.to_host(), I); });
  linear_rung("16 mlp_down_proj", l->wide, l->w_down, l->y_hidden, H, I);
  residual_rung("17 residual_add_2");
  add(
      "18 kv_cache_store", 0, 8.0 * T * s.kv_heads * d,
      [=](Stream& st, int) { kv_cache_store(st, l->qkv.data(), l->positions.data(), l->cache(), l->split(), T); },
      [=] {
        return check_store(l->split(), context, T, l->qkv.to_host(), l->k_cache.to_host(), l->v_cache.to_host());
      });
  add(
      "19 cos_sin_precompute", 2.0 * context * d, 4.0 * context * d,
      [=](Stream& st, int) { rope_table(st, l->table_out.data(), context, d, kTheta); },
      [=] { return check_angles(l->table_out.to_host(), context, d, kTheta); });
  norm_rung("20 final_rms_norm");
  add(
      "21 lm_head", 2.0 * s.vocabulary * H, 2.0 * s.vocabulary * H + 4.0 * s.vocabulary + 2.0 * H,
      [=](Stream& st, int) { project(st, l->x.data(), l->lm_head.at(0), l->logits.data(), 1, s.vocabulary, H); },
      [=] { return check_linear(l->x.data(), l->lm_head.at(0), l->logits, 1, s.vocabulary, H); });
  return p;
}

// LAYER=small in the environment: the layer of the executor on a GPU too, so that ncu counts what the lab counts.
const DecoderShape& shape_here() {
  const char* layer = std::getenv("LAYER");
  return device().gpu && !(layer && std::string(layer) == "small") ? kArticle : kSmall;
}

}  // namespace

Step operators_table() {
  Step step;
  step.number = "08";
  step.title = "the 21 operators";
  step.form = "TOKENSxCONTEXT";
  step.shapes = {{{1, 256}}, {{256, 256}}};
  step.small_shapes = {{{1, 13}}, {{5, 9}}};
  step.memory_bound = true;
  step.peer_name = "–";
  step.device_bytes = [](const Shape& s) {
    const DecoderShape& d = shape_here();
    const double T = s[0], context = s[1], width = d.heads * d.head_dim, kv = d.kv_heads * d.head_dim;
    const double weights = WeightPool::bytes(d.qkv(), d.hidden) + WeightPool::bytes(d.hidden, width) +
                           2 * WeightPool::bytes(d.intermediate, d.hidden) +
                           WeightPool::bytes(d.hidden, d.intermediate) + WeightPool::bytes(d.vocabulary, d.hidden);
    const double rows = 2.0 * (3 * d.hidden + 2 * d.qkv() + 2 * width + kv + 3 * d.intermediate) + 8.0 * d.hidden;
    const double reference = 16.0 * std::max(double(d.intermediate) * T, double(d.vocabulary));
    return weights + T * (rows + 8.0 * d.heads * context) + context * (8 * kv + 8.0 * d.head_dim) + reference;
  };
  step.build = [](const Shape& shape, uint64_t seed) { return build(shape_here(), shape, seed); };
  return step;
}

void print_accuracy() {
  if (accuracies.empty()) return;
  fmt::print("\n {:<24}{:<26}{:>14}{:>14}  worst position\n", "operator", "shape", "max |diff|", "mean |diff|");
  for (const Accuracy& a : accuracies)
    fmt::print(" {:<24}{:<26}{:>14.3g}{:>14.3g}  {}\n", a.name, a.shape, a.check.max_abs, a.check.mean_abs,
               a.check.worst);
}
