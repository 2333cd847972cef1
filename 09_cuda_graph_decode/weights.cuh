// 09 · the weights of a decoder in device memory: one arena of bfloat16, cut into tensors
//
// q, k and v of a layer lie behind each other, and so do gate and up: each group is one matrix for one GEMM.
#pragma once
#include <string>
#include <vector>

#include "09_cuda_graph_decode/config.hpp"
#include "09_cuda_graph_decode/safetensors.hpp"
#include "common/device.hpp"

struct LayerWeights {
  bfloat16* input_norm;       // [hidden]
  bfloat16* qkv;              // [(heads + 2·kv_heads)·head_dim, hidden]: rows of q, then k, then v
  bfloat16* qkv_bias;         // [(heads + 2·kv_heads)·head_dim], or null
  bfloat16 *q_norm, *k_norm;  // [head_dim], or null
  bfloat16* o;                // [hidden, heads·head_dim]
  bfloat16* post_norm;        // [hidden]
  bfloat16* gate_up;          // [2·intermediate, hidden]: rows of gate, then up
  bfloat16* down;             // [hidden, intermediate]
};

class Weights {
 public:
  // Checks the whole checkpoint first (check_checkpoint), then copies it; F32 tensors are rounded to bfloat16. Throws
  // BadInput for a wrong file, EnvironmentError when the device has too little memory.
  Weights(const ModelConfig& config, const Checkpoint& checkpoint);

  // Seeded random weights, made on the device: layer matrices normal with deviation 1/√(inputs), so that no layer
  // drowns and none explodes, the embedding 0.02, biases 0.1, norms 1 ± 0.1.
  Weights(const ModelConfig& config, uint64_t seed);

  const ModelConfig& config() const { return config_; }
  const LayerWeights& layer(int i) const { return layers_[static_cast<size_t>(i)]; }
  const bfloat16* embedding() const { return embedding_; }    // [vocab, hidden]
  const bfloat16* final_norm() const { return final_norm_; }  // [hidden]
  const bfloat16* lm_head() const { return lm_head_; }        // [vocab, hidden]; the embedding where it is tied
  size_t bytes() const { return arena_.bytes(); }
  // Bytes one decode step has to read: every weight but the embedding rows of other tokens.
  size_t bytes_per_token() const;

 private:
  struct Tensor {  // one tensor of the checkpoint and its place in the arena
    std::string name;
    size_t offset, count;
    int inputs;  // of a matrix: its columns; 0 for a vector
  };
  explicit Weights(const ModelConfig& config);
  bfloat16* find(const std::string& name) const;  // null where this family has no such tensor

  ModelConfig config_;
  std::vector<Tensor> tensors_;
  DeviceBuffer<bfloat16> arena_;
  std::vector<LayerWeights> layers_;
  bfloat16 *embedding_ = nullptr, *final_norm_ = nullptr, *lm_head_ = nullptr;
};
