// 08 · seeded bfloat16 values made on the device: 300 MB of them would keep a host busy for seconds
#pragma once
#include "common/launch.hpp"

// Element i depends on seed and i alone (the finaliser of splitmix64, Steele et al. 2014): the same on both machines.
__host__ __device__ inline float hashed_uniform(uint64_t seed, uint64_t i) {
  uint64_t z = (seed * 0x9e3779b97f4a7c15ull) ^ ((i + 1) * 0xd1342543de82ef95ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return float(int64_t(z) >> 40) * 0x1p-23f;  // [-1, 1)
}

inline __global__ void fill_random_bf16_kernel(bfloat16* to, size_t count, uint64_t seed, float scale) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
    to[i] = __float2bfloat16(hashed_uniform(seed, i) * scale);
}

// to[i] uniform in [-scale, scale).
inline void fill_random_bf16(Stream& stream, bfloat16* to, size_t count, uint64_t seed, float scale = 1.f) {
  const size_t blocks = ceil_div<size_t>(count, 256);
  launch(fill_random_bf16_kernel, dim3(unsigned(blocks < 4096 ? blocks : 4096)), dim3(256), on(stream), to, count, seed,
         scale);
}
