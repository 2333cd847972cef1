// 09 · for tests of this folder: models too small to hide an index mistake, a prompt, and how far logits are apart
#pragma once
#include <cmath>
#include <vector>

#include "09_cuda_graph_decode/config.hpp"

// Small shapes that no index mistake survives: q is wider than hidden, groups of 3, sizes that are no multiple of a tile.
inline ModelConfig small_qwen3() {
  ModelConfig c;
  c.family = ModelConfig::Family::kQwen3;
  c.layers = 2;
  c.hidden = 72;
  c.heads = 6;
  c.kv_heads = 2;
  c.head_dim = 64;
  c.intermediate = 104;
  c.vocab = 211;
  c.max_position = 512;
  c.rms_eps = 1e-6;
  c.rope_theta = 1e6;
  c.tied = true;
  c.qk_norm = true;
  return c;
}
inline ModelConfig small_qwen2() {
  ModelConfig c = small_qwen3();
  c.family = ModelConfig::Family::kQwen2;
  c.qk_norm = false;
  c.qkv_bias = true;
  c.tied = false;
  c.heads = 7;
  c.kv_heads = 1;
  c.hidden = 100;
  return c;
}
inline ModelConfig small_article() {
  ModelConfig c = small_qwen3();
  c.family = ModelConfig::Family::kArticle;
  c.qk_norm = false;
  c.heads = 4;
  c.hidden = 128;
  c.head_dim = 128;
  return c;
}

inline std::vector<int> some_prompt(int length, int vocab, int salt = 0) {
  std::vector<int> ids;
  for (int i = 0; i < length; ++i) ids.push_back((i * 37 + 11 + salt) % vocab);
  return ids;
}

// ‖got − want‖ / ‖want‖
inline double relative_error(const std::vector<float>& got, const std::vector<double>& want) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(difference / size);
}
