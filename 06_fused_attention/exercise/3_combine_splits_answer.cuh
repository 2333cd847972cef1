// Exercise 06.3 · splits of the keys: the answer.
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
  // [answer]
  float top = -INFINITY, total = 0.f, value = 0.f;
  for (int s = 0; s < splits; ++s) top = fmaxf(top, m[s]);
  for (int s = 0; s < splits; ++s) {
    const float w = m[s] == -INFINITY ? 0.f : __expf(m[s] - top);  // from the split's maximum to the common one
    total += w * l[s];
    value += w * o[s * kDim + d];
  }
  out[d] = total == 0.f ? 0.f : value / total;
  // [/answer]
}

void combine(Stream& stream, const float* m, const float* l, const float* o, float* out, int splits) {
  launch(combine_kernel, 1, kDim, on(stream), m, l, o, out, splits);
}
