// cuBLAS for the peers: one handle a program, on the caller's stream, with a workspace that a captured graph can use.
// Only for files that are compiled where HAVE_CUBLAS says that the build found the library.
#pragma once
#include <cublas_v2.h>
#include <fmt/format.h>

#include "common/device.hpp"

// Throws EnvironmentError, naming the call.
inline void check_cublas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw EnvironmentError(fmt::format("{} failed: cuBLAS status {}", call, static_cast<int>(status)));
}

// Plain precision: fp32 stays fp32, for TF32 has to be asked for.
inline cublasHandle_t cublas_on(Stream& stream) {
  struct Cublas {
    cublasHandle_t handle = nullptr;
    DeviceBuffer<char> workspace{32 << 20};  // given once, so that a captured graph allocates nothing
    Cublas() {
      check_cublas(cublasCreate(&handle), "cublasCreate");
      check_cublas(cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH), "cublasSetMathMode");
    }
  };
  static Cublas cublas;
  check_cublas(cublasSetStream(cublas.handle, stream.handle), "cublasSetStream");
  check_cublas(cublasSetWorkspace(cublas.handle, cublas.workspace.data(), cublas.workspace.bytes()),
               "cublasSetWorkspace");
  return cublas.handle;
}
