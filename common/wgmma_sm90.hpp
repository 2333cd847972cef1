// wgmma: the matrix instruction of Hopper's tensor cores, for a warpgroup of four warps (sm_90a), with its executor twin.
//
//   d[64, N] (+)= a[64, 16] · b[16, N]    a, b bfloat16, d float in registers, N = 64, 128 or 256
//
// b, and a unless it is in registers, come from tiles in shared memory with 128-byte rows, swizzled as tma_load writes
// them, by way of a descriptor. All is asynchronous: wgmma_fence, some wgmma, wgmma_commit, wgmma_wait.
// Source: PTX ISA, "Asynchronous warpgroup level matrix instructions"; names in the comments are its.
#pragma once
#include "common/ptx_sm90.hpp"

// Matrix descriptor of a tile at `tile`: start, "leading" and "stride" byte offsets in units of 16, 128-byte swizzle.
//   K is contiguous, 64 of it a row:  `stride` bytes from one 8 rows of M or N to the next: 1024 where rows are 128
//                                     bytes apart. The next 16 of K begin 32 bytes on. `leading` does not matter.
//   N is contiguous, 64 of it a row:  `leading` bytes from one 64 of N to the next, `stride` from one 8 of K to the next:
//                                     1024. The next 16 of K begin 2 · stride bytes on.
__device__ __forceinline__ uint64_t wgmma_descriptor(const void* tile, uint32_t stride = 1024,
                                                     uint32_t leading = 16 CALLED_FROM) {
#if ON_GPU
  const uint32_t start = shared_address_of(tile);
#else
  const uint32_t start = shared_address_of(tile, site);
#endif
  return uint64_t(start >> 4 & 0x3fff) | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32 | uint64_t(1) << 62;
}
// The descriptor of the same tile `bytes` further on.
__device__ __forceinline__ uint64_t wgmma_advance(uint64_t descriptor, uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

// Orders this thread's use of registers and the wgmma that follow. Before the first one, and again wherever d or a in
// registers were read or written in between.
__device__ __forceinline__ void wgmma_fence() {
#if !ON_GPU
  simt::wgmma_fence({__FILE__, __LINE__});
#elif ON_HOPPER
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
// Closes the group of the wgmma since the last commit.
__device__ __forceinline__ void wgmma_commit() {
#if !ON_GPU
  simt::wgmma_commit({__FILE__, __LINE__});
#elif ON_HOPPER
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// The compiler may not move a use of these registers in front of the wait that stands before this.
template <int R>
__device__ __forceinline__ void wgmma_keep_behind([[maybe_unused]] float (&d)[R]) {
#if ON_HOPPER
#pragma unroll
  for (int i = 0; i < R; ++i) asm volatile("" : "+f"(d[i])::"memory");
#endif
}
// Waits until at most `groups_left` of the newest groups are still under way. Accumulators that are read next are named:
// before, they must be neither read nor written. Tiles the finished groups read may be overwritten.
template <int groups_left, class... Accumulators>
__device__ __forceinline__ void wgmma_wait(Accumulators&... read_next) {
#if !ON_GPU
  simt::wgmma_wait(groups_left, {__FILE__, __LINE__});
#elif ON_HOPPER
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups_left) : "memory");
#endif
  (wgmma_keep_behind(read_next), ...);
}

#if ON_HOPPER
// The registers of d as text, "%0, %1, …", and as operands; they come first, so that the others' numbers depend on N.
#define WGMMA_TEN(t) \
  "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define WGMMA_THIRTY WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2)
#define WGMMA_TEXT_64 WGMMA_THIRTY "%30, %31"
#define WGMMA_SIXTY WGMMA_THIRTY WGMMA_TEN(3) WGMMA_TEN(4) WGMMA_TEN(5)
#define WGMMA_TEXT_128 WGMMA_SIXTY "%60, %61, %62, %63"
#define WGMMA_TEXT_256 \
  WGMMA_SIXTY WGMMA_TEN(6) WGMMA_TEN(7) WGMMA_TEN(8) WGMMA_TEN(9) WGMMA_TEN(10) WGMMA_TEN(11) "%120, %121, " \
                                                                                             "%122, %123, %124, " \
                                                                                             "%125, %126, %127"
#define WGMMA_D8(i)                                                                                           \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define WGMMA_D32(i) WGMMA_D8(i), WGMMA_D8(i + 8), WGMMA_D8(i + 16), WGMMA_D8(i + 24)
#define WGMMA_D_64 WGMMA_D32(0)
#define WGMMA_D_128 WGMMA_D32(0), WGMMA_D32(32)
#define WGMMA_D_256 WGMMA_D32(0), WGMMA_D32(32), WGMMA_D32(64), WGMMA_D32(96)

// d, the operand a as text, then the numbers of descriptor b, of "add" and of "b is transposed"; last the operands.
#define WGMMA(N, A, A_MODES, B, ADD, TRANSPOSED, ...)                                                               \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N           \
               "k16.f32.bf16.bf16 {" WGMMA_TEXT_##N "}, " A ", %" #B ", add, 1, 1, " A_MODES "%" #TRANSPOSED ";\n}" \
               : WGMMA_D_##N                                                                                        \
               : __VA_ARGS__, "l"(b), "r"(int(add)), "n"(int(transposed_b)))
#endif

// d (+)= a · b with both in shared memory, K contiguous in a and, unless transposed_b, in b. `add` false: d = a · b.
template <bool transposed_b = false, int R>
__device__ __forceinline__ void wgmma([[maybe_unused]] float (&d)[R], [[maybe_unused]] uint64_t a,
                                      [[maybe_unused]] uint64_t b, [[maybe_unused]] bool add CALLED_FROM) {
  static_assert(R == 32 || R == 64 || R == 128, "N = 2 R is 64, 128 or 256");
#if !ON_GPU
  simt::wgmma({d, nullptr, a, b, 2 * R, add, transposed_b}, site);
#elif ON_HOPPER
  if constexpr (R == 32)
    WGMMA(64, "%32", "0, ", 33, 34, 35, "l"(a));
  else if constexpr (R == 64)
    WGMMA(128, "%64", "0, ", 65, 66, 67, "l"(a));
  else
    WGMMA(256, "%128", "0, ", 129, 130, 131, "l"(a));
#endif
}
// The same with this warp's 16 rows of a in registers, as mma_m16n8k16_bf16 takes them.
template <bool transposed_b = false, int R>
__device__ __forceinline__ void wgmma([[maybe_unused]] float (&d)[R], [[maybe_unused]] const uint32_t (&a)[4],
                                      [[maybe_unused]] uint64_t b, [[maybe_unused]] bool add CALLED_FROM) {
  static_assert(R == 32 || R == 64 || R == 128, "N = 2 R is 64, 128 or 256");
#if !ON_GPU
  simt::wgmma({d, a, 0, b, 2 * R, add, transposed_b}, site);
#elif ON_HOPPER
#define WGMMA_A "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
  if constexpr (R == 32)
    WGMMA(64, "{%32, %33, %34, %35}", "", 36, 37, 38, WGMMA_A);
  else if constexpr (R == 64)
    WGMMA(128, "{%64, %65, %66, %67}", "", 68, 69, 70, WGMMA_A);
  else
    WGMMA(256, "{%128, %129, %130, %131}", "", 132, 133, 134, WGMMA_A);
#undef WGMMA_A
#endif
}
