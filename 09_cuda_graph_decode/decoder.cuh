// 09 · the decoder: prefill a prompt, then one token a step, eagerly or as one graph launch
//
// Everything a step changes lies in device memory: the token, its position, the number of keys. So the graph is
// captured once, nothing in it is baked in, and a second prompt replays it unchanged.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "05_online_softmax/argmax.cuh"
#include "06_fused_attention/decode_split.cuh"
#include "06_fused_attention/unfused_scratch.hpp"
#include "09_cuda_graph_decode/kv_cache.cuh"
#include "09_cuda_graph_decode/linear.cuh"
#include "09_cuda_graph_decode/weights.cuh"

// Which kernels a decoder runs on: one rung of the ladder.
struct DecoderOptions {
  GemmLauncher fp32_gemm = nullptr;  // linear layers by this GEMM of steps 01 to 04; null: by step 08
  bool fused_attention = true;       // step 06; else 04's GEMM, 05's softmax and a score matrix
  bool fused_operators = true;       // step 08's fused GEMVs for the decode step; needs fp32_gemm == null
  bool graph = true;                 // replay the step as one CUDA Graph
  bool pdl = true;                   // programmatic dependent launch between the kernels of a step
  bool wgmma = true;                 // prefill's linear layers by wgmma where the card has it, else by mma.sync
  bool wgmma_attention = true;       // and its attention
  int piece_rows = 1024;             // a longer prompt is read in pieces, so that activations stay small
};

class Decoder {
 public:
  // Allocates every buffer it will ever need, for texts of up to `capacity` tokens; warms up; captures the step's graph.
  // The graphs of prefill are captured on the first prompt of each padded length.
  Decoder(const Weights& weights, int capacity, const DecoderOptions& options);

  // Forgets the text so far and reads `prompt`; afterwards the logits of its last position and the greedy choice are
  // there. 1 ≤ prompt.size() < capacity.
  void prefill(const std::vector<int>& prompt);
  // Feeds the next token: afterwards logits and greedy choice are those behind it. Enqueued only.
  void step();
  // The token that the next step() will feed: the greedy choice, unless replaced. Waits for the device.
  int next_token();
  // The same in two halves: what is enqueued between them, the step itself for example, is not waited for. So the device
  // computes the next token while the host looks at this one.
  void request_token();
  int requested_token();
  void replace_next_token(int id);
  // [vocab], of the newest position. Waits for the device.
  std::vector<float> logits();
  // Tokens at positions begin … end − 1: the prompt, and every token a step has fed. Waits for the device.
  std::vector<int> text(int begin, int end);
  // GPU seconds of one step, by events: the newest `steps` of the text once more, with no host between them. They feed
  // the greedy choices, so the text is another one afterwards. 0 on the executor.
  double device_seconds_per_step(int steps);

  const ModelConfig& config() const { return weights_.config(); }
  int capacity() const { return cache_.capacity(); }
  int launches_per_token() const { return launches_per_token_; }
  size_t kv_bytes() const { return cache_.bytes(); }
  Stream& stream() { return stream_; }

 private:
  // What changes from step to step; one struct in device memory.
  struct State {
    int token, position, kv_len;
  };
  int* token() const { return &state_.data()->token; }
  int* position() const { return &state_.data()->position; }
  int* kv_len() const { return &state_.data()->kv_len; }
  void set_position(int position, int token);
  float scale() const;  // of attention scores
  bool pdl() const { return options_.pdl && options_.fused_operators; }

  Matrix qkv_matrix(int layer) const;
  Matrix o_matrix(int layer) const;
  Matrix gate_up_matrix(int layer) const;
  Matrix down_matrix(int layer) const;
  Matrix head_matrix() const;
  QkNormRopeStore qkv_heads(int layer, const int* positions) const;

  bool fused_prefill() const { return options_.fused_operators && options_.fused_attention; }
  void prepare_prefill();
  void prefill_plainly(int first, int rows, bool last);
  void enqueue_piece(int first, int rows);
  void enqueue_prefill_head(int row);
  void layer_rows(int layer, const int* positions, int first, int rows);
  void attend_rows(int layer, int first, int rows);
  void attend_unfused(int layer, int first, int rows);
  void attend_one(int layer);
  template <class T>
  Attention<T> attention_of(const T* q, const T* k, const T* v, T* out, int first, int rows) const;
  void head(const float* row);  // logits and greedy choice from one row of the residual stream

  void enqueue_step();  // all kernels of one decode step
  void step_eagerly();
  void fused_layer(int layer);

  const Weights& weights_;
  DecoderOptions options_;
  Stream stream_;
  int rows_;  // most rows of one forward pass: prompts are read in pieces of this many tokens
  KvCaches cache_;
  DeviceBuffer<State> state_;
  DeviceBuffer<int> text_, choice_;
  DeviceBuffer<int> positions_;  // [capacity]: 0, 1, 2, …
  DeviceBuffer<float2> rope_;    // [capacity, head_dim / 2]
  DeviceBuffer<float> residual_, logits_;
  DeviceBuffer<bfloat16> normed_, qkv_, q_, attended_, gate_up_, activated_;
  DeviceBuffer<float> partial_;                              // of the prefill's split-K
  DeviceBuffer<float> wide_q_, wide_k_, wide_v_, wide_out_;  // only for the unfused attention
  ArgmaxScratch argmax_;
  DeviceBuffer<Best> block_best_;  // lm_head's own argmax, one a block
  DecodeScratch decode_attention_;
  std::unique_ptr<UnfusedScratch> unfused_;
  std::unique_ptr<LinearLayers> layers_;
  std::optional<Graph> graph_;
  std::map<int, Graph> prefill_graphs_;   // of a prompt's first piece, by its padded number of rows
  PinnedBuffer token_seen_{sizeof(int)};  // where request_token() has the token copied to
  Event token_arrived_;
  int launches_per_token_ = 0;
  int host_position_ = 0;  // the host's copy of State::position; no kernel of the graph depends on it
};
