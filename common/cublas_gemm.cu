// The peer of steps 01 to 04. Optional: HAVE_CUBLAS says whether the build found the library.
#include "common/gemm_step.hpp"

#if ON_GPU && defined(HAVE_CUBLAS)
#include "common/cublas.hpp"

namespace {

// cuBLAS is column-major: a row-major C = A·B is, read that way, Cᵀ = Bᵀ·Aᵀ, so A and B change places and nothing moves.
void run(Stream& stream, const Gemm& p) {
  const float one = 1.f, zero = 0.f;
  check_cublas(cublasSgemm(cublas_on(stream), CUBLAS_OP_N, CUBLAS_OP_N, p.N, p.M, p.K, &one, p.B, p.N, p.A, p.K, &zero,
                           p.C, p.N),
               "cublasSgemm");
}

}  // namespace

GemmLauncher cublas_gemm() { return run; }

#else

GemmLauncher cublas_gemm() { return nullptr; }

#endif
