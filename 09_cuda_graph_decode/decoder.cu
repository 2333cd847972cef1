#include "09_cuda_graph_decode/decoder.cuh"

#include <algorithm>
#include <cstring>

#include "07_positional_encoding/rope.cuh"
#include "08_qwen_operators/argmax_finish.cuh"
#include "08_qwen_operators/embedding.cuh"
#include "08_qwen_operators/gemv.cuh"
#include "08_qwen_operators/rms_norm.cuh"
#include "08_qwen_operators/swiglu.cuh"
#include "common/bench.hpp"
#include "common/launch.hpp"

namespace {

// Steps before the capture: modules loaded, attributes set, nothing left to happen for the first time.
constexpr int kWarmups = 3;

struct StateView {
  int *token, *position, *kv_len, *text;
};

// The end of a step: what was fed goes into the text, the choice becomes the next token.
struct Advance {
  StateView state;
  int capacity;
  __device__ void operator()(int choice) const {
    const int token = *state.token, position = *state.position, kv_len = *state.kv_len;
    if (position < capacity) state.text[position] = token;
    *state.token = choice;
    *state.position = position + 1;
    *state.kv_len = kv_len + 1;
  }
};
// Behind the unfused argmax; the fused one does it itself.
__global__ void advance_kernel(Advance advance, const int* choice) { advance(*choice); }

}  // namespace

Decoder::Decoder(const Weights& weights, int capacity, const DecoderOptions& options)
    : weights_(weights),
      options_(options),
      rows_(std::min(options.piece_rows, std::max(1, capacity))),
      cache_(weights.config(), std::max(capacity, kWarmups + 1)),
      state_(1),
      text_(size_t(cache_.capacity())),
      choice_(1),
      positions_(size_t(cache_.capacity())),
      rope_(size_t(cache_.capacity()) * size_t(weights.config().head_dim / 2)),
      residual_(size_t(rows_) * size_t(weights.config().hidden)),
      logits_(size_t(weights.config().vocab)),
      normed_(residual_.size()),
      qkv_(size_t(rows_) * size_t(config().q_width() + 2 * config().kv_width())),
      q_(size_t(rows_) * size_t(config().q_width())),
      attended_(q_.size()),
      gate_up_(size_t(rows_) * 2 * size_t(config().intermediate)),
      activated_(size_t(rows_) * size_t(config().intermediate)),
      block_best_(size_t(gemv_logits_blocks(config().vocab))),
      decode_attention_(config().heads, config().kv_heads, config().head_dim, cache_.capacity()) {
  const ModelConfig& c = config();
  rope_table(stream_, rope_.data(), cache_.capacity(), c.head_dim, c.rope_theta);
  if (options_.fp32_gemm) {
    auto layers = std::make_unique<Fp32Layers>(options_.fp32_gemm);
    for (int i = 0; i < c.layers; ++i)
      for (const Matrix& matrix : {qkv_matrix(i), o_matrix(i), gate_up_matrix(i), down_matrix(i)})
        layers->add(stream_, matrix, rows_);
    layers->add(stream_, head_matrix(), 1);
    layers_ = std::move(layers);
  } else {
    layers_ = bfloat16_layers();
  }
  if (!options_.fused_attention) {
    const size_t kv = size_t(cache_.capacity()) * size_t(c.kv_width());
    wide_q_ = DeviceBuffer<float>(q_.size());
    wide_out_ = DeviceBuffer<float>(q_.size());
    wide_k_ = DeviceBuffer<float>(kv);
    wide_v_ = DeviceBuffer<float>(kv);
    unfused_ = std::make_unique<UnfusedScratch>(rows_, cache_.capacity(), c.head_dim);
  }
  prepare_prefill();
  set_position(0, 0);
  for (int i = 0; i < kWarmups; ++i) step_eagerly();
  stream_.synchronize();
  set_position(0, 0);
  Graph recorded = Graph::capture(stream_, [&] { enqueue_step(); });
  launches_per_token_ = recorded.nodes();
  // the unfused attention's launches grow with the text: its step cannot be one recorded graph
  if (options_.graph && options_.fused_attention) graph_ = std::move(recorded);
}

// The five linear layers -----------------------------------------------------------------------------------------------

Matrix Decoder::qkv_matrix(int i) const {
  const LayerWeights& w = weights_.layer(i);
  return {w.qkv, w.qkv_bias, config().q_width() + 2 * config().kv_width(), config().hidden};
}
Matrix Decoder::o_matrix(int i) const { return {weights_.layer(i).o, nullptr, config().hidden, config().q_width()}; }
Matrix Decoder::gate_up_matrix(int i) const {
  return {weights_.layer(i).gate_up, nullptr, 2 * config().intermediate, config().hidden};
}
Matrix Decoder::down_matrix(int i) const {
  return {weights_.layer(i).down, nullptr, config().hidden, config().intermediate};
}
Matrix Decoder::head_matrix() const { return {weights_.lm_head(), nullptr, config().vocab, config().hidden}; }

// Many rows (prefill.cu has the rest) ---------------------------------------------------------------------------------

// One layer for `rows` tokens at positions first, first + 1, …, an operator a kernel.
void Decoder::layer_rows(int layer, const int* positions, int first, int rows) {
  const LayerWeights& w = weights_.layer(layer);
  const ModelConfig& c = config();
  const float eps = static_cast<float>(c.rms_eps);
  rms_norm(stream_, residual_.data(), w.input_norm, normed_.data(), rows, c.hidden, eps);
  layers_->project(stream_, normed_.data(), qkv_matrix(layer), qkv_.data(), rows);
  qk_norm_rope_store(stream_, qkv_heads(layer, positions), rows);
  if (!options_.fused_attention)
    attend_unfused(layer, first, rows);
  else if (rows == 1)
    attend_one(layer);
  else
    attend_rows(layer, first, rows);
  layers_->add_to(stream_, attended_.data(), o_matrix(layer), residual_.data(), rows);
  rms_norm(stream_, residual_.data(), w.post_norm, normed_.data(), rows, c.hidden, eps);
  layers_->project(stream_, normed_.data(), gate_up_matrix(layer), gate_up_.data(), rows);
  act_mul(stream_, gate_up_.data(), gate_up_.data() + c.intermediate, activated_.data(), rows, c.intermediate,
          2 * int64_t(c.intermediate));
  layers_->add_to(stream_, activated_.data(), down_matrix(layer), residual_.data(), rows);
}

QkNormRopeStore Decoder::qkv_heads(int layer, const int* positions) const {
  const LayerWeights& w = weights_.layer(layer);
  const ModelConfig& c = config();
  return {qkv_.data(),
          w.q_norm,
          w.k_norm,
          rope_.data(),
          positions,
          q_.data(),
          cache_.layer(layer),
          {c.heads, c.kv_heads, c.head_dim},
          c.head_dim,
          static_cast<float>(c.rms_eps)};
}

// Decode ---------------------------------------------------------------------------------------------------------------

// The first kernel is never launched as a dependent: it starts when the step before has ended, and what that one wrote,
// position, kv_len and the old rows of the cache, the others may read ahead of their wait (06's decode_mma.cuh).
void Decoder::enqueue_step() {
  const ModelConfig& c = config();
  embedding(stream_, token(), weights_.embedding(), residual_.data(), 1, c.vocab, c.hidden);
  const Advance advance{{token(), position(), kv_len(), text_.data()}, cache_.capacity()};
  if (options_.fused_operators) {
    for (int layer = 0; layer < c.layers; ++layer) fused_layer(layer);
    rms_norm(stream_, residual_.data(), weights_.final_norm(), normed_.data(), 1, c.hidden,
             static_cast<float>(c.rms_eps), pdl());
    gemv_logits(stream_, normed_.data(), weights_.lm_head(), logits_.data(), block_best_.data(), c.vocab, c.hidden,
                pdl());
    argmax_finish(stream_, block_best_.data(), static_cast<int>(block_best_.size()), choice_.data(), pdl(), advance);
  } else {
    for (int layer = 0; layer < c.layers; ++layer) layer_rows(layer, position(), host_position_, 1);
    head(residual_.data());
    launch(advance_kernel, dim3(1), dim3(1), on(stream_), advance, choice_.data());
  }
}

// The same layer in five kernels, six with QK-norm; each GEMV has its weights on the way before it waits for x.
void Decoder::fused_layer(int layer) {
  const LayerWeights& w = weights_.layer(layer);
  const ModelConfig& c = config();
  const float eps = static_cast<float>(c.rms_eps);
  float* x = residual_.data();
  const QkNormRopeStore heads = qkv_heads(layer, position());
  if (c.qk_norm) {  // a head's norm needs the whole head, so rotation cannot be in the projection
    norm_gemv(stream_, x, w.input_norm, eps, w.qkv, w.qkv_bias, qkv_.data(), heads.split.row(), c.hidden, pdl());
    qk_norm_rope_store(stream_, heads, 1, pdl());
  } else {
    RopeStoreOutput out{};
    out.bias = w.qkv_bias;
    out.table = rope_.data();
    out.position = position();
    out.q = q_.data();
    out.cache = heads.cache;
    out.split = heads.split;
    out.position_settled = true;
    norm_gemv_rope_store(stream_, x, w.input_norm, eps, w.qkv, out, c.hidden, pdl());
  }
  attend_one(layer);
  gemv_add(stream_, attended_.data(), w.o, x, c.hidden, c.q_width(), pdl());
  norm_gemv_swiglu(stream_, x, w.post_norm, eps, w.gate_up, w.gate_up + size_t(c.intermediate) * size_t(c.hidden),
                   activated_.data(), c.intermediate, c.hidden, pdl());
  gemv_add(stream_, activated_.data(), w.down, x, c.hidden, c.intermediate, pdl());
}

// Logits and greedy choice from row `row` of normed_, by the kernels of a decode step.
void Decoder::enqueue_prefill_head(int row) {
  const ModelConfig& c = config();
  gemv_logits(stream_, normed_.data() + size_t(row) * size_t(c.hidden), weights_.lm_head(), logits_.data(),
              block_best_.data(), c.vocab, c.hidden, pdl());
  argmax_finish(stream_, block_best_.data(), static_cast<int>(block_best_.size()), choice_.data(), pdl());
}

void Decoder::head(const float* row) {
  const ModelConfig& c = config();
  rms_norm(stream_, row, weights_.final_norm(), normed_.data(), 1, c.hidden, static_cast<float>(c.rms_eps));
  layers_->logits(stream_, normed_.data(), head_matrix(), logits_.data());
  argmax(stream_, logits_.data(), c.vocab, choice_.data(), argmax_);
}

void Decoder::step_eagerly() {
  enqueue_step();
  ++host_position_;
}

void Decoder::step() {
  if (host_position_ >= capacity())
    throw BadInput("the text has reached the decoder's capacity of " + std::to_string(capacity()) + " tokens");
  if (graph_) {
    graph_->replay(stream_);
    ++host_position_;
  } else {
    step_eagerly();
  }
}

// State ----------------------------------------------------------------------------------------------------------------

void Decoder::set_position(int position, int token) {
  const State state{token, position, position + 1};
  copy_bytes_to_device(stream_, state_.data(), &state, sizeof state);
  stream_.synchronize();
  host_position_ = position;
}

int Decoder::next_token() {
  request_token();
  return requested_token();
}

void Decoder::request_token() {
  copy_bytes_to_host(stream_, token_seen_.data(), token(), sizeof(int));
  token_arrived_.record(stream_);
}

int Decoder::requested_token() {
  token_arrived_.synchronize();
  int id = 0;
  std::memcpy(&id, token_seen_.data(), sizeof id);
  return id;
}

double Decoder::device_seconds_per_step(int steps) {
  set_position(host_position_ - steps, 0);
  return time_once(stream_,
                   [&] {
                     for (int i = 0; i < steps; ++i) step();
                   }) /
         steps;
}

void Decoder::replace_next_token(int id) {
  copy_bytes_to_device(stream_, token(), &id, sizeof id);
  stream_.synchronize();
}

std::vector<float> Decoder::logits() {
  std::vector<float> values(logits_.size());
  copy_bytes_to_host(stream_, values.data(), logits_.data(), logits_.bytes());
  stream_.synchronize();
  return values;
}

std::vector<int> Decoder::text(int begin, int end) {
  std::vector<int> ids(size_t(end - begin));
  copy_bytes_to_host(stream_, ids.data(), text_.data() + begin, ids.size() * sizeof(int));
  stream_.synchronize();
  return ids;
}
