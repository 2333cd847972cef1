// Hopper's own instructions, as small named functions, each with a twin for the CPU executor (common/simt/hopper.hpp):
// mbarriers, bulk tensor copies (TMA), named barriers, registers moved between warpgroups. wgmma is in wgmma_sm90.hpp.
//
// They are compiled for sm_90a alone. A kernel that uses them has `if constexpr (kHopperCode)` around its body, and the
// host asks device().has_wgmma before it starts one.
#pragma once
#include "common/ptx.hpp"
#include "common/tensor_map.hpp"

#if !ON_GPU
#include "common/simt/hopper.hpp"
#endif

#if !ON_GPU || defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool kHopperCode = true;
#else
constexpr bool kHopperCode = false;
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ON_HOPPER 1
#else
#define ON_HOPPER 0
#endif

// The last parameter of functions whose failure the executor reports where they are called.
#if ON_GPU
#define CALLED_FROM
#else
#define CALLED_FROM , simt::Site site = {__builtin_FILE(), __builtin_LINE()}
#endif

// Dynamic shared memory from a multiple of 1024 bytes on, which swizzled tiles need.
template <class T>
__device__ __forceinline__ T* dynamic_shared_1024() {
#if ON_GPU
  extern __shared__ __align__(1024) unsigned char dynamic_shared_tiles[];
  return reinterpret_cast<T*>(dynamic_shared_tiles);
#else
  return static_cast<T*>(simt::dynamic_shared_memory());
#endif
}

__device__ __forceinline__ uint32_t shared_address_of(const void* shared CALLED_FROM) {
#if ON_GPU
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
#else
  return simt::shared_address(shared, site);
#endif
}

// mbarriers ---------------------------------------------------------------------------------------------------------
// A word of dynamic shared memory that counts. A phase of it is over when as many threads have arrived as it was
// initialised for and every byte that was announced has been copied; then the next phase begins. Phases have parity 0,
// 1, 0, 1 …; to wait for parity 1 on a fresh mbarrier returns at once, as if a phase before the first were over.
using Mbarrier = uint64_t;

// By one thread, and then mbarrier_init_fence() by the same and a __syncthreads().
__device__ __forceinline__ void mbarrier_init([[maybe_unused]] Mbarrier* barrier,
                                              [[maybe_unused]] int arrivals CALLED_FROM) {
#if !ON_GPU
  simt::mbarrier_init(barrier, arrivals, site);
#elif ON_HOPPER
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address_of(barrier)), "r"(arrivals) : "memory");
#endif
}
// Makes initialised mbarriers known to the copy engine.
__device__ __forceinline__ void mbarrier_init_fence() {
#if !ON_GPU
  simt::mbarrier_init_fence();
#elif ON_HOPPER
  asm volatile("fence.mbarrier_init.release.cluster;\n fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ __forceinline__ void mbarrier_arrive([[maybe_unused]] Mbarrier* barrier CALLED_FROM) {
#if !ON_GPU
  simt::mbarrier_arrive(barrier, 0, site);
#elif ON_HOPPER
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address_of(barrier)) : "memory");
#endif
}
// Arrives, and announces that copies will bring so many bytes in this phase.
__device__ __forceinline__ void mbarrier_expect_bytes([[maybe_unused]] Mbarrier* barrier,
                                                      [[maybe_unused]] uint32_t bytes CALLED_FROM) {
#if !ON_GPU
  simt::mbarrier_arrive(barrier, bytes, site);
#elif ON_HOPPER
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address_of(barrier)), "r"(bytes)
               : "memory");
#endif
}

// Returns when the phase of that parity is over: what its copies brought, and what was written before its arrivals, is
// there for this thread.
__device__ __forceinline__ void mbarrier_wait([[maybe_unused]] Mbarrier* barrier,
                                              [[maybe_unused]] unsigned parity CALLED_FROM) {
#if !ON_GPU
  simt::mbarrier_wait(barrier, parity, site);
#elif ON_HOPPER
  asm volatile(
      "{\n"
      ".reg .pred over;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@over bra DONE;\n"
      "bra WAIT;\n"
      "DONE:\n"
      "}" ::"r"(shared_address_of(barrier)),
      "r"(parity)
      : "memory");
#endif
}

// Bulk tensor copies, each by one thread ----------------------------------------------------------------------------

// Brings the map's descriptor close before the first copy needs it.
__device__ __forceinline__ void tma_prefetch_descriptor([[maybe_unused]] const TensorMap& map) {
#if ON_HOPPER
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

// Starts the copy of the box at these coordinates, innermost first, to `shared`; the bytes of a whole box arrive on
// `barrier`, which must have been told to expect them, also where part of the box is outside and becomes zero.
__device__ __forceinline__ void tma_load([[maybe_unused]] void* shared, [[maybe_unused]] const TensorMap& map,
                                         [[maybe_unused]] Mbarrier* barrier, [[maybe_unused]] int2 at CALLED_FROM) {
#if !ON_GPU
  simt::bulk_load(shared, map, {at.x, at.y, 0, 0}, barrier, site);
#elif ON_HOPPER
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          shared_address_of(shared)),
      "l"(&map), "r"(shared_address_of(barrier)), "r"(at.x), "r"(at.y)
      : "memory");
#endif
}
__device__ __forceinline__ void tma_load([[maybe_unused]] void* shared, [[maybe_unused]] const TensorMap& map,
                                         [[maybe_unused]] Mbarrier* barrier, [[maybe_unused]] int3 at CALLED_FROM) {
#if !ON_GPU
  simt::bulk_load(shared, map, {at.x, at.y, at.z, 0}, barrier, site);
#elif ON_HOPPER
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(shared_address_of(shared)),
      "l"(&map), "r"(shared_address_of(barrier)), "r"(at.x), "r"(at.y), "r"(at.z)
      : "memory");
#endif
}
__device__ __forceinline__ void tma_load([[maybe_unused]] void* shared, [[maybe_unused]] const TensorMap& map,
                                         [[maybe_unused]] Mbarrier* barrier, [[maybe_unused]] int4 at CALLED_FROM) {
#if !ON_GPU
  simt::bulk_load(shared, map, {at.x, at.y, at.z, at.w}, barrier, site);
#elif ON_HOPPER
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared_address_of(shared)),
      "l"(&map), "r"(shared_address_of(barrier)), "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w)
      : "memory");
#endif
}

// Makes this thread's ordinary writes to shared memory visible to tma_store and wgmma. Every thread that wrote calls it,
// then a barrier, then one thread starts the store.
__device__ __forceinline__ void async_proxy_fence() {
#if ON_HOPPER
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Starts the copy of a box from `shared` to these coordinates; what lies outside of the tensor is not written.
__device__ __forceinline__ void tma_store([[maybe_unused]] const TensorMap& map, [[maybe_unused]] int2 at,
                                          [[maybe_unused]] const void* shared CALLED_FROM) {
#if !ON_GPU
  simt::bulk_store(map, {at.x, at.y, 0, 0}, shared, site);
#elif ON_HOPPER
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
               "r"(shared_address_of(shared)), "r"(at.x), "r"(at.y)
               : "memory");
#endif
}
__device__ __forceinline__ void tma_store([[maybe_unused]] const TensorMap& map, [[maybe_unused]] int3 at,
                                          [[maybe_unused]] const void* shared CALLED_FROM) {
#if !ON_GPU
  simt::bulk_store(map, {at.x, at.y, at.z, 0}, shared, site);
#elif ON_HOPPER
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
               "r"(shared_address_of(shared)), "r"(at.x), "r"(at.y), "r"(at.z)
               : "memory");
#endif
}
__device__ __forceinline__ void tma_store([[maybe_unused]] const TensorMap& map, [[maybe_unused]] int4 at,
                                          [[maybe_unused]] const void* shared CALLED_FROM) {
#if !ON_GPU
  simt::bulk_store(map, {at.x, at.y, at.z, at.w}, shared, site);
#elif ON_HOPPER
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(shared_address_of(shared)), "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w)
               : "memory");
#endif
}
// Closes the group of this thread's stores since the last commit.
__device__ __forceinline__ void tma_store_commit() {
#if !ON_GPU
  simt::bulk_commit();
#elif ON_HOPPER
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
// Waits until all but this thread's newest `groups_left` groups have read their shared memory, which may then be
// written again, and must have before the block ends. The global memory they write is there when the kernel is over.
template <int groups_left>
__device__ __forceinline__ void tma_store_wait_read() {
#if !ON_GPU
  simt::bulk_wait(groups_left, true);
#elif ON_HOPPER
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(groups_left) : "memory");
#endif
}

// Barriers of some warps, and their registers -----------------------------------------------------------------------

// __syncthreads for `threads` threads, whole warps, that call it with the same id, 1 to 15.
__device__ __forceinline__ void named_barrier_sync([[maybe_unused]] int id, [[maybe_unused]] int threads CALLED_FROM) {
#if !ON_GPU
  simt::named_barrier(id, threads, true, site);
#elif ON_HOPPER
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}
// The same for a warp that tells the others it has come and goes on.
__device__ __forceinline__ void named_barrier_arrive([[maybe_unused]] int id,
                                                     [[maybe_unused]] int threads CALLED_FROM) {
#if !ON_GPU
  simt::named_barrier(id, threads, false, site);
#elif ON_HOPPER
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}

// A warpgroup's registers a thread, from now on: a multiple of 8, 24 to 256. The kernel needs __launch_bounds__(threads, 1)
// and each role one branch of a single if/else. More than were free is waited for.
template <int registers>
__device__ __forceinline__ void registers_down_to() {
  static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256, "a multiple of 8, 24 to 256");
#if ON_HOPPER
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
#endif
}
template <int registers>
__device__ __forceinline__ void registers_up_to() {
  static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256, "a multiple of 8, 24 to 256");
#if ON_HOPPER
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
#endif
}
