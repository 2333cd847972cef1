// 07 · rotary position embedding (Su et al. 2021, arXiv:2104.09864)
//
// Each pair of a head's dimensions is turned by the angle position × theta^(−2i/rotary). Two pairings are in use: the
// halves of the head, (i, i + rotary/2), in GPT-NeoX, Llama and Qwen; neighbours, (2i, 2i + 1), in GPT-J and the paper.
// Weights trained with one give nonsense with the other, and nothing else tells them apart.
// Predict: 6 operations for 8 bytes read and 8 written: memory-bound. The cos/sin rows are shared by all heads of a token
//          and come from the L1 or L2.
// Run: make step07     Look closer: make lab07 · make profile07
#pragma once
#include <string>
#include <type_traits>

#include "07_positional_encoding/angles.cuh"

// The table ------------------------------------------------------------------------------------------------------------

enum class RopeAngles {
  // As Hugging Face transformers computes them, and so what published models are run with: the inverse frequency and the
  // angle are each rounded to float. Deliberately not the true angle: off by up to about 4e-3 at position 40 959.
  kFloat32,
  // The true angle to within 1e-6 at every position below 2^24.
  kExact,
};

// 1 / theta^(2i/rotary), rounded where transformers rounds: exponent, power and quotient each to float.
__host__ __device__ inline float rope_inverse_frequency(int i, int rotary, double theta) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary);
  return 1.f / static_cast<float>(pow(theta, double(exponent)));
}

// [rope_table]
// A thread keeps one frequency and walks down the positions.
inline __global__ void rope_table_kernel(float2* table,  // [positions, rotary / 2] cos, sin
                                         int positions, int rotary, double theta, bool exact) {
  const int half = rotary / 2, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= half) return;
  const float inverse = rope_inverse_frequency(i, rotary, theta);
  const SplitFrequency split = split_frequency(pow(theta, -2.0 * i / rotary));
  for (unsigned position = blockIdx.y; position < unsigned(positions); position += gridDim.y) {
    const float angle = exact ? reduced_angle(float(position), split) : float(position) * inverse;
    float2 turn;
    sincosf(angle, &turn.y, &turn.x);  // not __sincosf, which is only for angles within [−π, π]
    table[int64_t(position) * half + i] = turn;
  }
}
// [/rope_table]

// Fills rows 0 … positions − 1. positions ≥ 1; rotary even, ≥ 2; theta > 0.
inline void rope_table(Stream& stream,
                       float2* table,  // device, [positions, rotary / 2] cos, sin
                       int positions, int rotary, double theta, RopeAngles angles = RopeAngles::kFloat32) {
  if (rotary < 2 || rotary % 2 != 0)
    throw BadInput("rope_table: " + std::to_string(rotary) + " rotary dimensions; wanted an even number from 2");
  if (!(theta > 0)) throw BadInput("rope_table: theta " + std::to_string(theta) + "; wanted a number above 0");
  const int threads = rotary / 2 < 128 ? ceil_div(rotary / 2, 32) * 32 : 128;
  const dim3 grid(unsigned(ceil_div(rotary / 2, threads)), unsigned(positions < 1024 ? positions : 1024));
  launch(rope_table_kernel, grid, dim3(unsigned(threads)), on(stream), table, positions, rotary, theta,
         angles == RopeAngles::kExact);
}

// The rotation ---------------------------------------------------------------------------------------------------------

enum class RopePairing { kHalfSplit, kInterleaved };

// [rotate]
// (x, y) turned by the angle whose cos and sin are given.
__device__ __forceinline__ float2 rotate(float2 pair, float2 turn) {
  return make_float2(pair.x * turn.x - pair.y * turn.y, pair.y * turn.x + pair.x * turn.y);
}
// [/rotate]

// N neighbouring elements as floats, and back: one access of 8 or 16 bytes each where N is 4 or 8, else element by
// element.
template <int N, class T>
__device__ __forceinline__ void load_elements(float (&to)[N], const T* from) {
  if constexpr (N % 4 != 0) {
    for (int i = 0; i < N; ++i)
      if constexpr (std::is_same_v<T, bfloat16>)
        to[i] = __bfloat162float(from[i]);
      else
        to[i] = from[i];
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    for (int i = 0; i < N; i += 4) {
      const uint2 v = load_vec<uint2>(from + i);
      const float2 a = unpack_bf16(v.x), b = unpack_bf16(v.y);
      to[i] = a.x, to[i + 1] = a.y, to[i + 2] = b.x, to[i + 3] = b.y;
    }
  } else {
    for (int i = 0; i < N; i += 4) {
      const float4 v = load_vec<float4>(from + i);
      to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
    }
  }
}
template <int N, class T>
__device__ __forceinline__ void store_elements(T* to, const float (&v)[N]) {
  if constexpr (N % 4 != 0) {
    for (int i = 0; i < N; ++i)
      if constexpr (std::is_same_v<T, bfloat16>)
        to[i] = __float2bfloat16(v[i]);
      else
        to[i] = v[i];
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    for (int i = 0; i < N; i += 4)
      store_vec(to + i, make_uint2(pack_bf16(v[i], v[i + 1]), pack_bf16(v[i + 2], v[i + 3])));
  } else {
    for (int i = 0; i < N; i += 4) store_vec(to + i, make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]));
  }
}

// What one launch rotates: the query heads of each token, then its key heads.
template <class T>
struct RopeHeads {
  T* q;                                    // [tokens, q_heads, head_dim]
  T* k;                                    // [tokens, k_heads, head_dim], unused where k_heads is 0
  int q_heads, k_heads, head_dim, rotary;  // dimensions rotary … head_dim − 1 of a head stay as they are
  int64_t q_token_stride, k_token_stride;  // elements between two tokens
};

// [rope]
// blockIdx.x is the token; a thread turns P pairs of one head, in place.
template <class T, int P, bool INTERLEAVED>
__global__ void rope_kernel(RopeHeads<T> heads, const float2* table,  // [positions, rotary / 2] cos, sin
                            const int* positions) {                   // [tokens]
  static_assert(P == 1 || P == 4, "a pair at a time, or vector accesses of 4");
  const int half = heads.rotary / 2, groups = half / P;
  const int item = blockIdx.y * blockDim.x + threadIdx.x;
  if (item >= (heads.q_heads + heads.k_heads) * groups) return;
  const int head = item / groups, i = item % groups * P;
  T* x = head < heads.q_heads
             ? heads.q + blockIdx.x * heads.q_token_stride + int64_t(head) * heads.head_dim
             : heads.k + blockIdx.x * heads.k_token_stride + int64_t(head - heads.q_heads) * heads.head_dim;
  float turn[2 * P];  // cos, sin, cos, sin …
  load_elements<2 * P>(turn, reinterpret_cast<const float*>(table + int64_t(positions[blockIdx.x]) * half + i));

  if constexpr (INTERLEAVED) {
    float pairs[2 * P];
    load_elements<2 * P>(pairs, x + 2 * i);
    for (int p = 0; p < 2 * P; p += 2) {
      const float2 turned = rotate(make_float2(pairs[p], pairs[p + 1]), make_float2(turn[p], turn[p + 1]));
      pairs[p] = turned.x, pairs[p + 1] = turned.y;
    }
    store_elements<2 * P>(x + 2 * i, pairs);
  } else {
    float first[P], second[P];
    load_elements<P>(first, x + i);
    load_elements<P>(second, x + i + half);
    for (int p = 0; p < P; ++p) {
      const float2 turned = rotate(make_float2(first[p], second[p]), make_float2(turn[2 * p], turn[2 * p + 1]));
      first[p] = turned.x, second[p] = turned.y;
    }
    store_elements<P>(x + i, first);
    store_elements<P>(x + i + half, second);
  }
}
// [/rope]

// Rotates the query and key heads of every token in one launch, in place; T is float or bfloat16, the arithmetic is float.
// table has a row for every position that occurs; the positions stay on the device and are not checked.
// Throws BadInput where rotary is odd or longer than a head.
template <class T>
void rope_apply_qk(Stream& stream, const RopeHeads<T>& heads,
                   const float2* table,   // device, [positions, rotary / 2]
                   const int* positions,  // device, [tokens]
                   int tokens, RopePairing pairing) {
  if (heads.rotary < 2 || heads.rotary % 2 != 0 || heads.rotary > heads.head_dim)
    throw BadInput("rope_apply: " + std::to_string(heads.rotary) + " rotary dimensions of " +
                   std::to_string(heads.head_dim) + "; wanted an even number from 2 to that");
  const bool interleaved = pairing == RopePairing::kInterleaved;
  const auto in_vectors = [](const void* p, int64_t token_stride) {
    return reinterpret_cast<uintptr_t>(p) % 16 == 0 && token_stride % 4 == 0;
  };
  const bool vectors = heads.rotary % 8 == 0 && heads.head_dim % 4 == 0 && in_vectors(table, 0) &&
                       in_vectors(heads.q, heads.q_token_stride) &&
                       (heads.k_heads == 0 || in_vectors(heads.k, heads.k_token_stride));
  const auto kernel = vectors ? (interleaved ? rope_kernel<T, 4, true> : rope_kernel<T, 4, false>)
                              : (interleaved ? rope_kernel<T, 1, true> : rope_kernel<T, 1, false>);
  const int items = (heads.q_heads + heads.k_heads) * (heads.rotary / 2 / (vectors ? 4 : 1));
  if (tokens < 1 || items < 1) return;
  const int threads = items < 256 ? ceil_div(items, 32) * 32 : 256;
  launch(kernel, dim3(unsigned(tokens), unsigned(ceil_div(items, threads))), dim3(unsigned(threads)), on(stream), heads,
         table, positions);
}

// The same for one tensor.
template <class T>
void rope_apply(Stream& stream,
                T* x,                  // device, [tokens, heads, head_dim]
                const float2* table,   // device, [positions, rotary / 2] cos, sin
                const int* positions,  // device, [tokens]
                int tokens, int heads, int head_dim, int rotary,
                int64_t token_stride,  // elements between two tokens
                RopePairing pairing) {
  const RopeHeads<T> one{x, nullptr, heads, 0, head_dim, rotary, token_stride, 0};
  rope_apply_qk(stream, one, table, positions, tokens, pairing);
}
