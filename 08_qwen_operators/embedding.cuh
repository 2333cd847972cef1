// 08 · embedding: token ids become rows of the residual stream
//
// The ids are read from device memory: a captured graph bakes in the address of the id, never the id.
#pragma once
#include "common/launch.hpp"

// A block a token. An id outside the vocabulary gives a row of NaN: it shows, and nothing out of bounds is read.
inline __global__ void embedding_kernel(const int* ids,         // [tokens]
                                        const bfloat16* table,  // [vocabulary, hidden]
                                        float* residual,        // [tokens, hidden]
                                        int vocabulary, int hidden) {
  pdl_launch_dependents();
  pdl_wait();
  const int id = ids[blockIdx.x];
  const bool known = id >= 0 && id < vocabulary;
  const bfloat16* row = table + size_t(known ? id : 0) * hidden;
  float* to = residual + size_t(blockIdx.x) * hidden;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x)
    to[i] = known ? __bfloat162float(row[i]) : __int_as_float(0x7fffffff);
}

// residual[t] = table[ids[t]] for `tokens` ≥ 1.
inline void embedding(Stream& stream,
                      const int* ids,         // device, [tokens]
                      const bfloat16* table,  // [vocabulary, hidden]
                      float* residual,        // [tokens, hidden]
                      int tokens, int vocabulary, int hidden, bool pdl = false) {
  launch(embedding_kernel, dim3(tokens), dim3(hidden < 256 ? ceil_div(hidden, 32) * 32 : 256), on(stream).pdl(pdl), ids,
         table, residual, vocabulary, hidden);
}
