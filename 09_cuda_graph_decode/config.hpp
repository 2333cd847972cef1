// 09 · what a checkpoint's config.json says about the model's shape
#pragma once
#include <string>
#include <vector>

// The shape of a decoder. Every size is an element count; nothing is derived from anything else
// (head_dim is not hidden / heads: Qwen3-0.6B has 16 heads of 128 on a hidden size of 1024).
struct ModelConfig {
  enum class Family {
    kArticle,  // no bias, no QK-norm; Hugging Face calls this shape "llama"
    kQwen2,    // biases on q, k and v
    kQwen3,    // RMSNorm on every head of q and k
  };
  Family family = Family::kArticle;
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0, vocab = 0, max_position = 0;
  double rms_eps = 0, rope_theta = 0;
  bool tied = false;      // lm_head is the embedding table
  bool qkv_bias = false;  // q_proj, k_proj and v_proj add a bias
  bool qk_norm = false;   // q and k are normalised per head before RoPE
  std::vector<int> eos;   // sorted, each once: every token that ends a text; may be empty

  int q_width() const { return heads * head_dim; }
  int kv_width() const { return kv_heads * head_dim; }
};

// "article", "qwen2" or "qwen3".
const char* family_name(ModelConfig::Family family);

// The shape of the article this tutorial follows: 647 422 976 parameters, no published checkpoint.
ModelConfig article_config();

// Reads folder/config.json. `eos` is the union of eos_token_id there and in generation_config.json with the id of
// tokenizer_config.json's eos_token; the last two files may be absent.
// Throws BadInput (file, key, expected, found) for a model_type other than qwen2, qwen3 and llama, a missing or absurd
// size, a RoPE base found nowhere, scaled RoPE, a sliding window in use, quantised weights, biases the family does not
// have, an activation other than SiLU, heads that kv_heads does not divide.
ModelConfig read_config(const std::string& folder);
