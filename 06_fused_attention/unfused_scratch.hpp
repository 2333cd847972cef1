// 06 · what attention in four steps keeps in memory
#pragma once
#include "common/device.hpp"

// Working memory for one head at a time, allocated once: the score matrix and contiguous copies of the head's matrices.
class UnfusedScratch {
 public:
  // For calls with up to `q_len` queries and `kv_len` keys.
  UnfusedScratch(int most_queries, int most_keys, int columns)
      : q_len(most_queries),
        kv_len(most_keys),
        head_dim(columns),
        scores(size_t(most_queries) * size_t(most_keys)),
        q(size_t(most_queries) * size_t(columns)),
        out(size_t(most_queries) * size_t(columns)),
        k(size_t(most_keys) * size_t(columns)),
        k_transposed(size_t(most_keys) * size_t(columns)),
        v(size_t(most_keys) * size_t(columns)) {}
  int q_len, kv_len, head_dim;
  DeviceBuffer<float> scores;           // [q_len, kv_len]
  DeviceBuffer<float> q, out;           // [q_len, head_dim]
  DeviceBuffer<float> k, k_transposed;  // [kv_len, head_dim], [head_dim, kv_len]
  DeviceBuffer<float> v;                // [kv_len, head_dim]
  size_t bytes() const {
    return scores.bytes() + q.bytes() + out.bytes() + k.bytes() + k_transposed.bytes() + v.bytes();
  }
};
