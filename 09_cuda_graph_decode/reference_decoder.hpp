// 09 · the decoder once more, as plain loops in double without a cache: what the tests hold the kernels against
#pragma once
#include <cmath>
#include <vector>

#include "09_cuda_graph_decode/weights.cuh"

class ReferenceDecoder {
 public:
  explicit ReferenceDecoder(const Weights& weights) : config_(weights.config()) {
    const ModelConfig& c = config_;
    const size_t hidden = size_t(c.hidden), qkv = size_t(c.q_width() + 2 * c.kv_width());
    for (int i = 0; i < c.layers; ++i) {
      const LayerWeights& w = weights.layer(i);
      layers_.push_back({host(w.input_norm, hidden), host(w.qkv, qkv * hidden), host(w.qkv_bias, qkv),
                         host(w.q_norm, size_t(c.head_dim)), host(w.k_norm, size_t(c.head_dim)),
                         host(w.o, hidden * size_t(c.q_width())), host(w.post_norm, hidden),
                         host(w.gate_up, 2 * size_t(c.intermediate) * hidden),
                         host(w.down, size_t(c.intermediate) * hidden)});
    }
    embedding_ = host(weights.embedding(), size_t(c.vocab) * hidden);
    final_norm_ = host(weights.final_norm(), hidden);
    lm_head_ = host(weights.lm_head(), size_t(c.vocab) * hidden);
  }

  // Logits [vocab] behind the last of `ids`.
  std::vector<double> logits(const std::vector<int>& ids) const { return logits_from(ids, ids.size() - 1).back(); }

  // [ids.size() − first, vocab]: the logits behind ids[first], ids[first + 1], …, in one pass, since no position sees a
  // later one.
  std::vector<std::vector<double>> logits_from(const std::vector<int>& ids, size_t first) const {
    std::vector<Row> x, rows;
    for (const int id : ids)
      x.emplace_back(embedding_.begin() + id * config_.hidden, embedding_.begin() + (id + 1) * config_.hidden);
    for (const Layer& layer : layers_) run(layer, x);
    for (size_t t = first; t < x.size(); ++t)
      rows.push_back(multiply(lm_head_, normalised(x[t], final_norm_, 0, config_.hidden), config_.vocab));
    return rows;
  }

 private:
  using Row = std::vector<double>;
  struct Layer {
    Row input_norm, qkv, qkv_bias, q_norm, k_norm, o, post_norm, gate_up, down;
  };

  static Row host(const bfloat16* device, size_t count) {
    if (!device) return {};
    std::vector<bfloat16> values(count);
    Stream stream;
    copy_bytes_to_host(stream, values.data(), device, count * sizeof(bfloat16));
    stream.synchronize();
    Row row;
    for (const bfloat16 v : values) row.push_back(double(__bfloat162float(v)));
    return row;
  }

  static Row multiply(const Row& weight, const Row& x, int outputs) {
    Row y(size_t(outputs), 0.0);
    for (size_t o = 0; o < y.size(); ++o)
      for (size_t i = 0; i < x.size(); ++i) y[o] += weight[o * x.size() + i] * x[i];
    return y;
  }

  // x[begin, begin + count) normalised; with no weight it comes back as it is.
  Row normalised(const Row& x, const Row& weight, int begin, int count) const {
    Row y(x.begin() + begin, x.begin() + begin + count);
    if (weight.empty()) return y;
    double squares = 0;
    for (const double v : y) squares += v * v;
    const double scale = 1 / std::sqrt(squares / count + config_.rms_eps);
    for (size_t i = 0; i < y.size(); ++i) y[i] *= scale * weight[i];
    return y;
  }

  Row rotated(Row head, int position) const {
    const int half = config_.head_dim / 2;
    for (int i = 0; i < half; ++i) {
      const double angle = position * std::pow(config_.rope_theta, -2.0 * i / config_.head_dim);
      const double a = head[size_t(i)], b = head[size_t(i + half)];
      head[size_t(i)] = a * std::cos(angle) - b * std::sin(angle);
      head[size_t(i + half)] = b * std::cos(angle) + a * std::sin(angle);
    }
    return head;
  }

  void run(const Layer& layer, std::vector<Row>& x) const {
    const ModelConfig& c = config_;
    const int d = c.head_dim, group = c.heads / c.kv_heads;
    std::vector<std::vector<Row>> q(x.size()), k(x.size()), v(x.size());
    for (size_t t = 0; t < x.size(); ++t) {
      Row qkv = multiply(layer.qkv, normalised(x[t], layer.input_norm, 0, c.hidden), c.q_width() + 2 * c.kv_width());
      for (size_t i = 0; i < layer.qkv_bias.size(); ++i) qkv[i] += layer.qkv_bias[i];
      const int position = static_cast<int>(t);
      for (int h = 0; h < c.heads; ++h) q[t].push_back(rotated(normalised(qkv, layer.q_norm, h * d, d), position));
      for (int h = 0; h < c.kv_heads; ++h) {
        k[t].push_back(rotated(normalised(qkv, layer.k_norm, (c.heads + h) * d, d), position));
        v[t].push_back(normalised(qkv, {}, (c.heads + c.kv_heads + h) * d, d));
      }
    }
    for (size_t t = 0; t < x.size(); ++t) {
      Row attended;
      for (int h = 0; h < c.heads; ++h) {
        const Row head = attend(q[t][size_t(h)], k, v, t, size_t(h / group));
        attended.insert(attended.end(), head.begin(), head.end());
      }
      add(x[t], multiply(layer.o, attended, c.hidden));
      const Row gate_up = multiply(layer.gate_up, normalised(x[t], layer.post_norm, 0, c.hidden), 2 * c.intermediate);
      Row activated;
      for (int i = 0; i < c.intermediate; ++i) {
        const double gate = gate_up[size_t(i)];
        activated.push_back(gate / (1 + std::exp(-gate)) * gate_up[size_t(i + c.intermediate)]);
      }
      add(x[t], multiply(layer.down, activated, c.hidden));
    }
  }

  Row attend(const Row& q, const std::vector<std::vector<Row>>& k, const std::vector<std::vector<Row>>& v, size_t last,
             size_t kv_head) const {
    Row weight;
    double sum = 0;
    for (size_t t = 0; t <= last; ++t) {
      double score = 0;
      for (size_t i = 0; i < q.size(); ++i) score += q[i] * k[t][kv_head][i];
      weight.push_back(std::exp(score / std::sqrt(double(config_.head_dim))));  // scores of the tests are small
      sum += weight.back();
    }
    Row out(q.size(), 0.0);
    for (size_t t = 0; t <= last; ++t)
      for (size_t i = 0; i < out.size(); ++i) out[i] += weight[t] / sum * v[t][kv_head][i];
    return out;
  }

  static void add(Row& x, const Row& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  ModelConfig config_;
  std::vector<Layer> layers_;
  Row embedding_, final_norm_, lm_head_;
};
