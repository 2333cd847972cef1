// Exercise 06.3 · splits of the keys: make exercise06 EXERCISE=3
//
// In decode there is one query and a long cache, so that several blocks share the keys. Each leaves a maximum, a sum and
// weighted values, both relative to its own maximum.
// YOUR TURN: the parts below are added up as if all were relative to the same one. m is part of the answer; mind splits that
// saw no key at all, and −∞ − (−∞).
#pragma once
#include "common/launch.hpp"

constexpr int kDim = 32;

// One warp brings together what the splits of the keys have left.
__global__ void combine_kernel(const float* m,  // [splits], largest score of the split; −∞ where it saw no key
                               const float* l,  // [splits], Σ exp(score − m); 0 where it saw no key
                               const float* o,  // [splits, kDim], Σ exp(score − m) · value
                               float* out,      // [kDim], 0 where no split saw a key
                               int splits) {
  const int d = threadIdx.x;
  float total = 0.f, value = 0.f;
  for (int s = 0; s < splits; ++s) {
    const float w = m[s] == -INFINITY ? 0.f : 1.f;
    total += w * l[s];
    value += w * o[s * kDim + d];
  }
  out[d] = value / total;
}

void combine(Stream& stream, const float* m, const float* l, const float* o, float* out, int splits) {
  launch(combine_kernel, 1, kDim, on(stream), m, l, o, out, splits);
}
