// 08 · several copies of one weight matrix, so that a timed run finds none of it in the L2
#pragma once
#include <algorithm>
#include <cmath>

#include "08_qwen_operators/random_bf16.cuh"

// Copies of `bytes` that together are four times the L2; 1 on the executor.
inline int cold_copies(double bytes) {
  const double l2 = 4.0 * double(device().l2_bytes);
  return int(std::min(256.0, std::ceil(std::max(1.0, l2 / bytes))));
}

class WeightPool {
 public:
  WeightPool() = default;
  // Random matrices [outputs, inputs] of about unit-sized products: at least `least` of them.
  WeightPool(int outputs, int inputs, uint64_t seed, int least = 1)
      : size_(size_t(outputs) * inputs),
        copies_(std::max(least, cold_copies(2.0 * double(size_)))),
        values_(size_ * copies_) {
    Stream stream;
    fill_random_bf16(stream, values_.data(), values_.size(), seed, 1.f / std::sqrt(float(inputs)));
    stream.synchronize();
  }
  const bfloat16* at(int copy) const { return values_.data() + size_t(copy % copies_) * size_; }
  int copies() const { return copies_; }
  static double bytes(double outputs, double inputs, int least = 1) {
    const double one = 2 * outputs * inputs;
    return one * std::max(least, cold_copies(one));
  }

 private:
  size_t size_ = 0;
  int copies_ = 1;
  DeviceBuffer<bfloat16> values_;
};
