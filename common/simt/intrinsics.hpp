// CUDA's synchronising intrinsics and atomics, as rendezvous of the executor's fibers.
#pragma once
#include <type_traits>

#include "common/simt/executor.hpp"

// The caller's file and line, filled in where the call stands.
#define SIMT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// Barriers -----------------------------------------------------------------------------------------------------------

inline void __syncthreads(SIMT_SITE) { simt::syncthreads({file, line}); }
inline int __syncthreads_count(int predicate, SIMT_SITE) { return simt::block_barrier({file, line}, predicate != 0); }
inline int __syncthreads_or(int predicate, SIMT_SITE) { return simt::block_barrier({file, line}, predicate != 0) != 0; }
inline int __syncthreads_and(int predicate, SIMT_SITE) {
  return simt::block_barrier({file, line}, predicate == 0) == 0;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, SIMT_SITE) { simt::syncwarp(mask, {file, line}); }

inline void __threadfence() { simt::thread_fence(); }
inline void __threadfence_block() {}  // the threads of a block run on one host thread
inline void __nanosleep(unsigned, SIMT_SITE) { simt::pause({file, line}); }  // for loops that wait for another block

// Shuffles -----------------------------------------------------------------------------------------------------------

namespace simt {
template <class T>
struct ShuffleSlot {
  T value;
  int source;  // the lane whose value this lane wants; always a lane of the warp
  T result;
};

template <class T>
T shuffle(unsigned mask, T value, int source, Site site) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  ShuffleSlot<T> mine{value, source, value};
  warp_rendezvous(
      mask,
      [](void* const slots[32], unsigned present) {
        for (int lane = 0; lane < 32; ++lane) {
          if (!(present >> lane & 1)) continue;
          auto& slot = *static_cast<ShuffleSlot<T>*>(slots[lane]);
          // a source outside the mask gives an undefined value on hardware: NaN or garbage here, never a right answer
          if (present >> slot.source & 1)
            slot.result = static_cast<ShuffleSlot<T>*>(slots[slot.source])->value;
          else
            std::memset(&slot.result, 0xff, sizeof(T));
        }
      },
      &mine, site);
  return mine.result;
}
}  // namespace simt

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, SIMT_SITE) {
  const int base = simt::lane_id() & ~(width - 1);
  return simt::shuffle(mask, value, base + (source & (width - 1)), {file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, SIMT_SITE) {
  const int lane = simt::lane_id(), other = lane ^ lane_mask;
  return simt::shuffle(mask, value, other < (lane & ~(width - 1)) + width ? other : lane, {file, line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_SITE) {
  const int lane = simt::lane_id(), other = lane + static_cast<int>(delta);
  return simt::shuffle(mask, value, other < (lane & ~(width - 1)) + width ? other : lane, {file, line});
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_SITE) {
  const int lane = simt::lane_id(), other = lane - static_cast<int>(delta);
  return simt::shuffle(mask, value, other >= (lane & ~(width - 1)) ? other : lane, {file, line});
}

// Votes --------------------------------------------------------------------------------------------------------------

namespace simt {
struct VoteSlot {
  bool predicate;
  unsigned ballot;
};
inline unsigned vote(unsigned mask, bool predicate, Site site) {
  VoteSlot mine{predicate, 0};
  warp_rendezvous(
      mask,
      [](void* const slots[32], unsigned present) {
        unsigned ballot = 0;
        for (int lane = 0; lane < 32; ++lane)
          if ((present >> lane & 1) && static_cast<VoteSlot*>(slots[lane])->predicate) ballot |= 1u << lane;
        for (int lane = 0; lane < 32; ++lane)
          if (present >> lane & 1) static_cast<VoteSlot*>(slots[lane])->ballot = ballot;
      },
      &mine, site);
  return mine.ballot;
}
}  // namespace simt

inline unsigned __ballot_sync(unsigned mask, int predicate, SIMT_SITE) {
  return simt::vote(mask, predicate != 0, {file, line});
}
inline int __any_sync(unsigned mask, int predicate, SIMT_SITE) {
  return simt::vote(mask, predicate != 0, {file, line}) != 0;
}
inline int __all_sync(unsigned mask, int predicate, SIMT_SITE) {
  return simt::vote(mask, predicate != 0, {file, line}) == mask;
}

#undef SIMT_SITE

// Atomics: each returns the old value --------------------------------------------------------------------------------

namespace simt {
template <class T, class F>
__forceinline__ T atomic_update(T* address, F next) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  auto* bits = reinterpret_cast<Bits*>(address);
  Bits old = __atomic_load_n(bits, __ATOMIC_RELAXED), wanted;
  T value;
  do {
    std::memcpy(&value, &old, sizeof(T));
    const T updated = next(value);
    std::memcpy(&wanted, &updated, sizeof(T));
  } while (!__atomic_compare_exchange_n(bits, &old, wanted, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  return value;
}
}  // namespace simt

template <class T>
__forceinline__ T atomicAdd(T* address, std::common_type_t<T> value) {
  return simt::atomic_update(address, [=](T old) { return old + value; });
}
template <class T>
__forceinline__ T atomicMax(T* address, std::common_type_t<T> value) {
  return simt::atomic_update(address, [=](T old) { return old < value ? value : old; });
}
template <class T>
__forceinline__ T atomicMin(T* address, std::common_type_t<T> value) {
  return simt::atomic_update(address, [=](T old) { return value < old ? value : old; });
}
template <class T>
__forceinline__ T atomicExch(T* address, std::common_type_t<T> value) {
  return simt::atomic_update(address, [=](T) { return value; });
}
template <class T>
__forceinline__ T atomicCAS(T* address, std::common_type_t<T> expected, std::common_type_t<T> value) {
  return simt::atomic_update(address, [=](T old) { return old == expected ? value : old; });
}
__forceinline__ unsigned atomicInc(unsigned* address, unsigned limit) {
  return simt::atomic_update(address, [=](unsigned old) { return old >= limit ? 0u : old + 1u; });
}
