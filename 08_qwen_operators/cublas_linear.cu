#include "08_qwen_operators/cublas_linear.hpp"

#if ON_GPU && defined(HAVE_CUBLAS)
#include "common/cublas.hpp"

namespace {

// cuBLAS is column-major: read that way, W is [K, N] and y [N, M], so y = Wᵀ · x with W transposed and nothing moved.
template <class Out>
void run(Stream& stream, const bfloat16* x, const bfloat16* W, Out* y, int M, int N, int K) {
  const float one = 1.f, zero = 0.f;
  check_cublas(
      cublasGemmEx(cublas_on(stream), CUBLAS_OP_T, CUBLAS_OP_N, N, M, K, &one, W, CUDA_R_16BF, K, x, CUDA_R_16BF, K,
                   &zero, y, sizeof(Out) == 4 ? CUDA_R_32F : CUDA_R_16BF, N, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      "cublasGemmEx");
}

}  // namespace

LinearPeer<float> cublas_linear_float() { return run<float>; }
LinearPeer<bfloat16> cublas_linear_bf16() { return run<bfloat16>; }

#else

LinearPeer<float> cublas_linear_float() { return nullptr; }
LinearPeer<bfloat16> cublas_linear_bf16() { return nullptr; }

#endif
