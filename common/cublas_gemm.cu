// The peer of steps 01 to 04. Optional: HAVE_CUBLAS says whether the build found the library.
#include "common/gemm_step.hpp"

#if ON_GPU && defined(HAVE_CUBLAS)
#include <cublas_v2.h>
#include <fmt/format.h>

namespace {

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw EnvironmentError(fmt::format("{} failed: cuBLAS status {}", call, static_cast<int>(status)));
}

struct Handle {
  cublasHandle_t handle = nullptr;
  DeviceBuffer<char> workspace{32 << 20};  // given once, so that a captured graph allocates nothing
  Handle() {
    check(cublasCreate(&handle), "cublasCreate");
    check(cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH),
          "cublasSetMathMode");  // fp32 all through: TF32 has to be asked for
  }
};

// cuBLAS is column-major: a row-major C = A·B is, read that way, Cᵀ = Bᵀ·Aᵀ, so A and B change places and nothing moves.
void run(Stream& stream, const Gemm& p) {
  static Handle cublas;
  check(cublasSetStream(cublas.handle, stream.handle), "cublasSetStream");
  check(cublasSetWorkspace(cublas.handle, cublas.workspace.data(), cublas.workspace.bytes()), "cublasSetWorkspace");
  const float one = 1.f, zero = 0.f;
  check(cublasSgemm(cublas.handle, CUBLAS_OP_N, CUBLAS_OP_N, p.N, p.M, p.K, &one, p.B, p.N, p.A, p.K, &zero, p.C, p.N),
        "cublasSgemm");
}

}  // namespace

GemmLauncher cublas_gemm() { return run; }

#else

GemmLauncher cublas_gemm() { return nullptr; }

#endif
