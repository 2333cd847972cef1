// 09 · the keys and values of every position so far, so that a token costs one row of work and not the whole text
#pragma once
#include "08_qwen_operators/qk_norm_rope_store.cuh"
#include "09_cuda_graph_decode/config.hpp"
#include "common/device.hpp"

class KvCaches {
 public:
  // Room for `capacity` positions of every layer. Throws EnvironmentError when the device has too little memory.
  KvCaches(const ModelConfig& config, int capacity)
      : capacity_(capacity),
        layer_size_(size_t(config.kv_heads) * size_t(capacity) * size_t(config.head_dim)),
        keys_(layer_size_ * size_t(config.layers)),
        values_(layer_size_ * size_t(config.layers)) {}

  // [kv_heads, capacity, head_dim] each.
  KvCache layer(int i) const {
    return {keys_.data() + layer_size_ * size_t(i), values_.data() + layer_size_ * size_t(i), capacity_};
  }
  int capacity() const { return capacity_; }
  size_t bytes() const { return keys_.bytes() + values_.bytes(); }

 private:
  int capacity_;
  size_t layer_size_;
  DeviceBuffer<bfloat16> keys_, values_;
};
