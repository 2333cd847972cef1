// All inline PTX of the tutorial, as small named functions, each with a twin for the CPU executor.
// PTX names in the comments are those of the PTX ISA.
#pragma once
#include "common/device.hpp"

// On the executor a function that can fail knows the line of its caller, which is the kernel's own.
#if ON_GPU
#define CALLED_AT
#else
#define CALLED_AT , simt::Site site = {__builtin_FILE(), __builtin_LINE()}
#endif

// Dynamic shared memory of the block, 128-byte aligned. The launch says how many bytes: on(stream).smem(bytes).
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#if ON_GPU
  extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
#else
  return static_cast<T*>(simt::dynamic_shared_memory());
#endif
}

// One access of sizeof(V) bytes (4, 8 or 16); the address must be a multiple of that.
template <class V, class T>
__device__ __forceinline__ V load_vec(const T* address) {
  static_assert(sizeof(V) == 4 || sizeof(V) == 8 || sizeof(V) == 16, "one access moves 4, 8 or 16 bytes");
  return *reinterpret_cast<const V*>(address);
}

template <class V, class T>
__device__ __forceinline__ void store_vec(T* address, V value) {
  static_assert(sizeof(V) == 4 || sizeof(V) == 8 || sizeof(V) == 16, "one access moves 4, 8 or 16 bytes");
  *reinterpret_cast<V*>(address) = value;
}

// A read of data that is used once: kept out of L1 (ld.global.nc.L1::no_allocate). 16 bytes.
template <class T>
__device__ __forceinline__ uint4 load_streaming(const T* address) {
#if ON_GPU
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
#else
  return load_vec<uint4>(address);
#endif
}

// Words that one block leaves for another while both run: a reader finds the old value or the new one, never a mixture.
// They order nothing but themselves (ld.relaxed.gpu and st.relaxed.gpu, sm_70).
__device__ __forceinline__ void store_relaxed(unsigned long long* word, unsigned long long value) {
#if ON_GPU
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
  atomicExch(word, value);
#endif
}
__device__ __forceinline__ unsigned long long load_relaxed(unsigned long long* word) {
#if ON_GPU
  unsigned long long value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
#else
  return atomicAdd(word, 0ull);
#endif
}

// Asynchronous copies from global to shared memory (sm_80; a plain copy on sm_75) -------------------------------------
// A copy is visible to the thread that issued it after cp_async_wait, to the block after a barrier behind that.

// 16 bytes; where valid is false nothing is read and 16 zero bytes are written.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, bool valid = true CALLED_AT) {
#if !ON_GPU
  simt::async_copy(shared, global, 16, valid ? 16 : 0, site);
#elif __CUDA_ARCH__ >= 800
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(valid ? 16 : 0) : "memory");
#else
  *static_cast<uint4*>(shared) = valid ? *static_cast<const uint4*>(global) : make_uint4(0, 0, 0, 0);
#endif
}

// 4 bytes, for copies that change the layout on the way or start at any float.
__device__ __forceinline__ void cp_async_4(void* shared, const void* global, bool valid = true CALLED_AT) {
#if !ON_GPU
  simt::async_copy(shared, global, 4, valid ? 4 : 0, site);
#elif __CUDA_ARCH__ >= 800
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(global), "r"(valid ? 4 : 0) : "memory");
#else
  *static_cast<unsigned*>(shared) = valid ? *static_cast<const unsigned*>(global) : 0u;
#endif
}

// Closes the group of the copies issued since the last commit.
__device__ __forceinline__ void cp_async_commit() {
#if !ON_GPU
  simt::async_commit();
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `groups_left` of this thread's newest groups are still under way.
template <int groups_left>
__device__ __forceinline__ void cp_async_wait() {
#if !ON_GPU
  simt::async_wait(groups_left);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(groups_left) : "memory");
#endif
}

// Tensor cores ---------------------------------------------------------------------------------------------------------
// The fragment layouts stand in common/simt/tensor_core.hpp.

// Four 8×8 matrices of 2-byte values; lane 8i+r gives the address of row r of matrix i (ldmatrix.x4, sm_75).
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* shared_row CALLED_AT) {
#if ON_GPU
  const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from));
#else
  simt::ldmatrix<4, false>(r, shared_row, site);
#endif
}

// The same, each matrix transposed on the way (ldmatrix.trans).
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* shared_row CALLED_AT) {
#if ON_GPU
  const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from));
#else
  simt::ldmatrix<4, true>(r, shared_row, site);
#endif
}

// c[16, 8] += a[16, 16] · b[16, 8] on the tensor cores; a, b bfloat16 pairs, c float (mma.m16n8k16, sm_80).
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&c)[4], const uint32_t (&a)[4],
                                                  const uint32_t (&b)[2] CALLED_AT) {
#if !ON_GPU
  simt::mma_m16n8k16_bf16(c, a, b, site);
#elif __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  __trap();  // the launcher checks device().has_bf16_mma first
#endif
}

// Two floats as a register of two bfloat16, the first in the low half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, 4);
  return bits;
}
__device__ __forceinline__ float2 unpack_bf16(uint32_t pair) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

// 2^x within 2 units in the last place, one instruction (ex2.approx.ftz): -inf gives 0, results below 2^-126 give 0.
__device__ __forceinline__ float exp2_approx(float x) {
#if ON_GPU
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return x < -126.f ? 0.f : exp2f(x);
#endif
}

// Hints and dependent launch --------------------------------------------------------------------------------------------

// Asks for the 128-byte line at `address` to be brought into L2.
__device__ __forceinline__ void prefetch_l2([[maybe_unused]] const void* address) {
#if ON_GPU
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

// Programmatic dependent launch (sm_90): a kernel launched with on(stream).pdl() may start while the one before it
// still runs. pdl_wait() returns when that one has finished and its writes are visible: nothing it wrote may be read
// before, and nothing it reads may be written before.
__device__ __forceinline__ void pdl_wait() {
#if ON_GPU && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Lets the next kernel start as soon as every block has said so or has ended.
__device__ __forceinline__ void pdl_launch_dependents() {
#if ON_GPU && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

#undef CALLED_AT
