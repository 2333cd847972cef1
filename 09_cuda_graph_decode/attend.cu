// 09 · the attention of a layer: a prompt's rows by the fused kernels, one token's by split keys, or, for the ladder,
// in fp32 through a score matrix
#include <cmath>

#include "06_fused_attention/decode.cuh"
#include "06_fused_attention/fused_fp32.cuh"
#include "06_fused_attention/fused_mma.cuh"
#include "06_fused_attention/fused_sm90.cuh"
#include "06_fused_attention/unfused.cuh"
#include "09_cuda_graph_decode/decoder.cuh"

float Decoder::scale() const { return 1 / std::sqrt(static_cast<float>(config().head_dim)); }

void Decoder::attend_one(int layer) {
  const ModelConfig& c = config();
  const KvCache cache = cache_.layer(layer);
  attention_decode(stream_,
                   DecodeAttention{q_.data(), cache.k, cache.v, attended_.data(), kv_len(), c.heads, c.kv_heads,
                                   c.head_dim, cache.capacity, scale(), /*keys_settled=*/true},
                   decode_attention_, pdl());
}

void Decoder::attend_rows(int layer, int first, int rows) {
  const KvCache cache = cache_.layer(layer);
  const auto a = attention_of<bfloat16>(q_.data(), cache.k, cache.v, attended_.data(), first, rows);
  if (options_.wgmma_attention && device().has_wgmma)
    attention_fused_sm90(stream_, a, pdl());
  else if (device().has_bf16_mma)
    attention_fused_mma(stream_, a, pdl());
  else
    attention_fused_fp32(stream_, a);
}

// The same in fp32 through a score matrix in memory: what fusing saves.
void Decoder::attend_unfused(int layer, int first, int rows) {
  const KvCache cache = cache_.layer(layer);
  const size_t q_count = size_t(rows) * size_t(config().q_width());
  widen(stream_, cache.k, wide_k_.data(), wide_k_.size());
  widen(stream_, cache.v, wide_v_.data(), wide_v_.size());
  widen(stream_, q_.data(), wide_q_.data(), q_count);
  attention_unfused(stream_,
                    attention_of<float>(wide_q_.data(), wide_k_.data(), wide_v_.data(), wide_out_.data(), first, rows),
                    *unfused_);
  narrow(stream_, wide_out_.data(), attended_.data(), q_count);
}

template <class T>
Attention<T> Decoder::attention_of(const T* q, const T* k, const T* v, T* out, int first, int rows) const {
  const ModelConfig& c = config();
  Attention<T> a{};
  a.q = q;
  a.k = k;
  a.v = v;
  a.out = out;
  a.batch = 1;
  a.heads = c.heads;
  a.kv_heads = c.kv_heads;
  a.q_len = rows;
  a.kv_len = first + rows;
  a.head_dim = c.head_dim;
  a.q_row_stride = a.out_row_stride = c.q_width();
  a.q_head_stride = a.out_head_stride = a.kv_row_stride = c.head_dim;
  a.kv_head_stride = int64_t(cache_.capacity()) * c.head_dim;
  a.q_start = first;
  a.causal = true;
  a.scale = scale();
  return a;
}
