#include "02_smem_tiling/register_tile_gemm.cuh"
#include "02_smem_tiling/tiled_gemm.cuh"
#include "common/gemm_test.hpp"

TEST_CASE("02 tile 32×32: every shape, exact on integers") { check_gemm_shapes(gemm_tiled_32, 32, 32, 32); }
TEST_CASE("02 8 outputs a thread: every shape, exact on integers") {
  check_gemm_shapes(gemm_register_column, 64, 64, 8);
}
TEST_CASE("02 8×8 outputs a thread: every shape, exact on integers") {
  check_gemm_shapes(gemm_register_tile, 128, 128, 8);
}
TEST_CASE("02 tile 32×32: NaN and infinity come through") { check_gemm_special_values(gemm_tiled_32); }
TEST_CASE("02 8 outputs a thread: NaN and infinity come through") { check_gemm_special_values(gemm_register_column); }
TEST_CASE("02 8×8 outputs a thread: NaN and infinity come through") { check_gemm_special_values(gemm_register_tile); }

#if !ON_GPU
// What the two barriers are for. On a GPU a kernel without one may look right for months; the executor runs thread
// after thread from barrier to barrier, which makes the fault show every time.
namespace {

template <bool FIRST_BARRIER, bool SECOND_BARRIER>
__global__ void gemm_tiled_missing_barrier(const float* A, const float* B, float* C, int M, int N, int K) {
  constexpr int TILE = 32;
  __shared__ float As[TILE][TILE], Bs[TILE][TILE];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int col = blockIdx.x * TILE + tx, row = blockIdx.y * TILE + ty;
  float sum = 0.f;
  for (int k0 = 0; k0 < K; k0 += TILE) {
    As[ty][tx] = row < M && k0 + tx < K ? A[size_t(row) * K + k0 + tx] : 0.f;
    Bs[ty][tx] = k0 + ty < K && col < N ? B[size_t(k0 + ty) * N + col] : 0.f;
    if (FIRST_BARRIER) __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += As[ty][k] * Bs[k][tx];
    if (SECOND_BARRIER) __syncthreads();
  }
  if (row < M && col < N) C[size_t(row) * N + col] = sum;
}

// How many elements of a 32 × 32 result over `K` are wrong.
template <bool FIRST_BARRIER, bool SECOND_BARRIER>
size_t wrong_elements(int K) {
  const int M = 32, N = 32;
  const auto a = random_integers(size_t(M) * K, 1), b = random_integers(size_t(K) * N, 2);
  DeviceBuffer<float> A(a), B(b), C(size_t(M) * N);
  Stream stream;
  launch(gemm_tiled_missing_barrier<FIRST_BARRIER, SECOND_BARRIER>, dim3(1), dim3(32, 32), on(stream), A.data(),
         B.data(), C.data(), M, N, K);
  std::vector<double> want(size_t(M) * N, 0.0);
  for (int i = 0; i < M; ++i)
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < N; ++j) want[size_t(i) * N + j] += double(a[size_t(i) * K + k]) * b[size_t(k) * N + j];
  return compare_exact(C.to_host(), want, size_t(N)).mismatches;
}

}  // namespace

TEST_CASE("02: with both barriers the copy of the kernel is right") { CHECK(wrong_elements<true, true>(64) == 0); }
TEST_CASE("02: without the first barrier a thread reads what its neighbours have not stored yet") {
  CHECK(wrong_elements<false, true>(64) > 0);
}
TEST_CASE("02: without the second barrier a thread overwrites what its neighbours still read") {
  CHECK(wrong_elements<true, false>(32) == 0);  // one tile: nothing is overwritten, and the fault hides
  CHECK(wrong_elements<true, false>(64) > 0);
}
#endif
