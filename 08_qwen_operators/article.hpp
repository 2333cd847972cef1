// 08 · the decoder that the tables of this step are about: the article's shape, and a small one for the executor
#pragma once

struct DecoderShape {
  int hidden, heads, kv_heads, head_dim, intermediate, vocabulary, layers;
  int qkv() const { return (heads + 2 * kv_heads) * head_dim; }
  // Bytes of bfloat16 weights that one token reads: matrices, norms, the tied embedding as lm_head.
  double weight_bytes() const {
    const double layer = double(qkv()) * hidden + double(hidden) * heads * head_dim + 3.0 * intermediate * hidden;
    return 2 * (layers * (layer + 2.0 * hidden) + double(vocabulary) * hidden + hidden);
  }
};
constexpr DecoderShape kArticle{1024, 8, 2, 128, 4864, 151936, 28};
constexpr DecoderShape kSmall{64, 4, 2, 16, 160, 301, 2};
