#include "common/gemm.hpp"
#include "common/launch.hpp"

namespace {
__global__ void reference_kernel(const float* A,     // [M, K]
                                 const float* B,     // [K, N]
                                 double* want,       // [M, N]
                                 double* magnitude,  // [M, N]
                                 int M, int N, int K) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= M || col >= N) return;
  double sum = 0, size = 0;
  for (int k = 0; k < K; ++k) {
    const double product = double(A[size_t(row) * K + k]) * double(B[size_t(k) * N + col]);
    sum += product;
    size += fabs(product);
  }
  want[size_t(row) * N + col] = sum;
  magnitude[size_t(row) * N + col] = size;
}
}  // namespace

void gemm_reference(Stream& stream, const Gemm& p, double* want, double* magnitude) {
  in_row_slabs(p, 8, [&](const Gemm& slab, unsigned blocks) {
    const size_t skipped = static_cast<size_t>(slab.C - p.C);
    launch(reference_kernel, dim3(ceil_div(p.N, 32), blocks), dim3(32, 8), on(stream), slab.A, slab.B, want + skipped,
           magnitude + skipped, slab.M, slab.N, slab.K);
  });
}
