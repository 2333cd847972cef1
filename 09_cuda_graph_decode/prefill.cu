// 09 · prefill: many tokens at once, through step 08's GEMMs
//
// Six kernels and the attention a layer: the sums of split-K go into the residual add and the norm that follow, SiLU
// into the end of the gate and up GEMM. Rows are padded to a multiple of 64, the height of a tile, which is computed
// anyway: few shapes, and a graph for each. A graph is worth its capture only where the host, at about 5 µs a launch,
// would be slower than the device: for the first piece of a prompt. Later pieces follow a full one, which keeps the
// device busy for longer than it takes to launch them.
#include <algorithm>

#include "08_qwen_operators/embedding.cuh"
#include "08_qwen_operators/partials_norm.cuh"
#include "08_qwen_operators/prefill_linear.cuh"
#include "09_cuda_graph_decode/decoder.cuh"

namespace {
constexpr int kRowStep = 64;
}

void Decoder::prepare_prefill() {
  std::vector<int> positions(positions_.size());
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int>(i);
  positions_.upload(positions);
  if (!fused_prefill()) return;
  const PrefillLinear layers{options_.wgmma};
  size_t most = 0;
  for (int rows = 1; rows <= rows_; ++rows)
    for (const Matrix& m : {o_matrix(0), down_matrix(0)})
      most = std::max(most, size_t(layers.most_pieces(rows, m.outputs, m.inputs)) * size_t(rows) * size_t(m.outputs));
  partial_ = DeviceBuffer<float>(most);
}

void Decoder::prefill(const std::vector<int>& prompt) {
  const int count = static_cast<int>(prompt.size());
  std::vector<int> ids = prompt;  // padding is token 0: finite, and no row of the prompt sees it
  ids.resize(size_t(std::min(count + kRowStep - 1, capacity())));
  copy_bytes_to_device(stream_, text_.data(), ids.data(), ids.size() * sizeof(int));
  int uncaptured = 0;  // rows of a first piece that has no graph yet
  for (int first = 0; first < count; first += rows_) {
    const int rows = std::min(rows_, count - first);
    if (!fused_prefill()) {
      prefill_plainly(first, rows, first + rows == count);
      continue;
    }
    const int padded = std::min({ceil_div(rows, kRowStep) * kRowStep, rows_, capacity() - first});
    const auto graph = first == 0 && options_.graph ? prefill_graphs_.find(padded) : prefill_graphs_.end();
    if (graph != prefill_graphs_.end()) {
      graph->second.replay(stream_);
    } else {
      enqueue_piece(first, padded);
      if (first == 0 && options_.graph) uncaptured = padded;
    }
    if (first + rows == count) enqueue_prefill_head(rows - 1);
  }
  // now, while the device is at work, and with every kernel of the piece loaded by its first run
  if (uncaptured > 0)
    prefill_graphs_.emplace(uncaptured, Graph::capture(stream_, [&] { enqueue_piece(0, uncaptured); }));
  const State state{0, count, count + 1};
  copy_bytes_to_device(stream_, state_.data(), &state, sizeof state);
  copy_bytes_on_device(stream_, token(), choice_.data(), sizeof(int));
  stream_.synchronize();  // once, because the copies read this function's own memory
  host_position_ = count;
}

// An operator a kernel, and no padding: the early rungs of the ladder.
void Decoder::prefill_plainly(int first, int rows, bool last) {
  set_position(first + rows - 1, 0);  // attention of a single row reads the number of keys from there
  embedding(stream_, text_.data() + first, weights_.embedding(), residual_.data(), rows, config().vocab,
            config().hidden);
  for (int layer = 0; layer < config().layers; ++layer) layer_rows(layer, positions_.data() + first, first, rows);
  if (last) head(residual_.data() + size_t(rows - 1) * size_t(config().hidden));
}

// All layers for `rows` tokens of text_ at positions first, first + 1, …; their final norm is in normed_.
void Decoder::enqueue_piece(int first, int rows) {
  const ModelConfig& c = config();
  const float eps = static_cast<float>(c.rms_eps);
  embedding(stream_, text_.data() + first, weights_.embedding(), residual_.data(), rows, c.vocab, c.hidden);
  rms_norm(stream_, residual_.data(), weights_.layer(0).input_norm, normed_.data(), rows, c.hidden, eps, pdl());
  // residual += x Wᵀ, then the norm that whatever follows begins with
  const PrefillLinear layers{options_.wgmma};
  const auto add_and_norm = [&](const bfloat16* x, const Matrix& m, const bfloat16* norm) {
    const int pieces = layers.partials(stream_, x, m.weight, partial_.data(), rows, m.outputs, m.inputs, pdl());
    add_partials_rms_norm(stream_, residual_.data(), partial_.data(), norm, normed_.data(), rows, m.outputs, pieces,
                          eps, pdl());
  };
  for (int layer = 0; layer < c.layers; ++layer) {
    const LayerWeights& w = weights_.layer(layer);
    const Matrix qkv = qkv_matrix(layer);
    layers.linear(stream_, normed_.data(), qkv.weight, qkv_.data(), rows, qkv.outputs, qkv.inputs, qkv.bias, pdl());
    qk_norm_rope_store(stream_, qkv_heads(layer, positions_.data() + first), rows, pdl());
    attend_rows(layer, first, rows);
    add_and_norm(attended_.data(), o_matrix(layer), w.post_norm);
    layers.swiglu(stream_, normed_.data(), w.gate_up, activated_.data(), gate_up_.data(), rows, c.intermediate,
                  c.hidden, pdl());
    add_and_norm(activated_.data(), down_matrix(layer),
                 layer + 1 < c.layers ? weights_.layer(layer + 1).input_norm : weights_.final_norm());
  }
}
