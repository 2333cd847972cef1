// launch(kernel, grid, block, on(stream), args...): the one way a kernel is started here.
//
// On CUDA it is kernel<<<grid, block, smem, stream>>>(args...) and the check of the launch error that tutorials forget;
// on the executor it runs the blocks.
#pragma once
#include <tuple>
#include <unordered_map>

#include "common/device.hpp"
#include "common/ptx.hpp"

// Where and how a kernel starts.
struct LaunchConfig {
  Stream* stream;
  size_t shared_bytes = 0;
  bool dependent = false;
  // Bytes of dynamic shared memory a block gets.
  LaunchConfig smem(size_t bytes) const {
    LaunchConfig copy = *this;
    copy.shared_bytes = bytes;
    return copy;
  }
  // Programmatic dependent launch (sm_90, ignored elsewhere): see pdl_wait() in common/ptx.hpp.
  LaunchConfig pdl(bool wanted = true) const {
    LaunchConfig copy = *this;
    copy.dependent = wanted;
    return copy;
  }
};
inline LaunchConfig on(Stream& stream) { return {&stream}; }

#if ON_GPU

// Static and dynamic shared memory together above 48 KB: a kernel has to be told first. Once, with the most it has been
// given so far: a call into the driver for each launch is a large part of what a small kernel's launch costs the host.
inline void allow_shared_bytes(const void* kernel, size_t bytes) {
  thread_local std::unordered_map<const void*, size_t> allowed;
  size_t& most = allowed[kernel];
  if (bytes <= most) return;
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  most = bytes;
}

template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, const LaunchConfig& how, A&&... args) {
  if (how.shared_bytes > 0) allow_shared_bytes(reinterpret_cast<const void*>(kernel), how.shared_bytes);
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = how.shared_bytes;
  config.stream = how.stream->handle;
  cudaLaunchAttribute attribute{};
  if (how.dependent && device().sm >= 90) {
    // A multiprocessor changes its split of L1 and shared memory only when it is empty: one split for the whole chain,
    // or the next kernel waits for the last block of this one.
    CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...));
}

#else

template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, const LaunchConfig& how, A&&... args) {
  struct Closure {
    void (*kernel)(P...);
    std::tuple<P...> arguments;
  };
  Closure closure{kernel, std::tuple<P...>(static_cast<P>(args)...)};
  how.stream->run([closure, grid, block, bytes = how.shared_bytes] {
    const simt::Work work{[](const void* p) {
                            const auto& c = *static_cast<const Closure*>(p);
                            std::apply(c.kernel, c.arguments);
                          },
                          &closure, sizeof closure, reinterpret_cast<const void*>(closure.kernel)};
    simt::run_grid(work, grid, block, bytes);
  });
}

#endif
