// The few CUDA types and intrinsics that kernels of this tutorial use, for a machine without the CUDA Toolkit.
// common/simt/test_types.cpp compares them, bit by bit, with the toolkit's own headers where those exist.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// One copy a host thread: the executor runs one block at a time on each, so this is one copy a block.
#define __shared__ static thread_local

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

namespace simt {
// CUDA's vector types move with one instruction, so a copy is one access here too. Left to the compiler it would be one
// for each member, and the lab would count as many requests.
template <class V>
__forceinline__ void copy_whole(V* to, const V* from) {
  constexpr size_t size = sizeof(V);
  std::memcpy(__builtin_assume_aligned(static_cast<void*>(to), size), __builtin_assume_aligned(from, size), size);
}
template <class T>
struct alignas(2 * sizeof(T)) Vector2 {
  T x, y;
  Vector2() = default;
  Vector2(T x_, T y_) : x(x_), y(y_) {}
  Vector2(const Vector2& other) noexcept { copy_whole(this, &other); }
  Vector2& operator=(const Vector2& other) noexcept { return copy_whole(this, &other), *this; }
};
template <class T>
struct alignas(4 * sizeof(T)) Vector4 {
  T x, y, z, w;
  Vector4() = default;
  Vector4(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_) {}
  Vector4(const Vector4& other) noexcept { copy_whole(this, &other); }
  Vector4& operator=(const Vector4& other) noexcept { return copy_whole(this, &other), *this; }
};
}  // namespace simt

struct float2 : simt::Vector2<float> {
  using Vector2::Vector2;
};
struct float4 : simt::Vector4<float> {
  using Vector4::Vector4;
};
struct int3 {
  int x, y, z;
};
struct int2 : simt::Vector2<int> {
  using Vector2::Vector2;
};
struct int4 : simt::Vector4<int> {
  using Vector4::Vector4;
};
struct uint2 : simt::Vector2<unsigned> {
  using Vector2::Vector2;
};
struct uint4 : simt::Vector4<unsigned> {
  using Vector4::Vector4;
};

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace simt {
inline uint32_t float_bits(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  return u;
}
inline float bits_float(uint32_t u) {
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
// float -> bfloat16, round to nearest even; every NaN becomes the canonical 0x7fff, as the toolkit does it.
inline uint16_t to_bfloat16(float f) {
  const uint32_t u = float_bits(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
// float -> IEEE half, round to nearest even; overflow gives infinity, NaN the canonical 0x7fff.
inline uint16_t to_half(float f) {
  const uint32_t u = float_bits(f), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 2^16 or above
  if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, which float addition rounds for us
    const float shifted = bits_float(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (float_bits(shifted) - float_bits(0.5f)));
  }
  const uint32_t rebased = magnitude - (112u << 23);  // exponent bias 127 -> 15
  return static_cast<uint16_t>(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13));
}
inline float from_half(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_float(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x400u) return bits_float(sign | ((magnitude + (112u << 10)) << 13));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;  // subnormal
  return bits_float(sign | float_bits(value));
}
}  // namespace simt

struct __nv_bfloat16 {
  uint16_t bits;
};
struct __nv_bfloat162 : simt::Vector2<__nv_bfloat16> {
  using Vector2::Vector2;
};
struct __half {
  uint16_t bits;
};
struct __half2 : simt::Vector2<__half> {
  using Vector2::Vector2;
};

inline __nv_bfloat16 __float2bfloat16(float f) { return {simt::to_bfloat16(f)}; }
inline float __bfloat162float(__nv_bfloat16 b) { return simt::bits_float(static_cast<uint32_t>(b.bits) << 16); }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__float2bfloat16(x), __float2bfloat16(y)}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {__bfloat162float(v.x), __bfloat162float(v.y)}; }
inline __half __float2half(float f) { return {simt::to_half(f)}; }
inline float __half2float(__half h) { return simt::from_half(h.bits); }

template <class T>
__forceinline__ T __ldg(const T* p) {
  return *p;
}
template <class T>
__forceinline__ void __stcs(T* p, T v) {
  *p = v;
}
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.f / sqrtf(x); }
inline float __frcp_rn(float x) { return 1.f / x; }
inline int __float_as_int(float f) { return static_cast<int>(simt::float_bits(f)); }
inline unsigned __float_as_uint(float f) { return simt::float_bits(f); }
inline float __int_as_float(int i) { return simt::bits_float(static_cast<uint32_t>(i)); }
inline float __uint_as_float(unsigned u) { return simt::bits_float(u); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
