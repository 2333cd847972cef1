#include "04_vectorized_double_buffer/best_gemm.cuh"
#include "04_vectorized_double_buffer/double_buffer_gemm.cuh"
#include "04_vectorized_double_buffer/prefetch_gemm.cuh"
#include "04_vectorized_double_buffer/vectorized_gemm.cuh"
#include "common/gemm_test.hpp"

namespace {

// The shapes of gemm_test.hpp, and for either path every number of k tiles from 1 to 5, whole and ragged, on a block of
// C that is cut off in both directions.
void check_both_paths(GemmLauncher launcher, int tile_m, int tile_n, int tile_k) {
  check_gemm_shapes(launcher, tile_m, tile_n, tile_k);
  uint64_t seed = 100;
  for (int tiles = 1; tiles <= 5; ++tiles)
    for (int ragged : {0, 1, 4}) {
      check_gemm_exact(launcher, tile_m + 3, tile_n + 8, tiles * tile_k - ragged, ++seed);   // 16-byte path
      check_gemm_exact(launcher, tile_m - 3, tile_n + 10, tiles * tile_k - ragged, ++seed);  // 4-byte path
    }
}

// N and K are multiples of 4, yet no row starts at 16 bytes: the pointers are off by one float.
void check_unaligned_pointers(GemmLauncher launcher) {
  const int M = 37, N = 40, K = 24;
  const auto a = random_integers(size_t(M) * K + 1, 1), b = random_integers(size_t(K) * N + 1, 2);
  DeviceBuffer<float> A(a), B(b), C(size_t(M) * N + 1);
  Stream stream;
  launcher(stream, Gemm{A.data() + 1, B.data() + 1, C.data() + 1, M, N, K});
  stream.synchronize();
  std::vector<double> want(size_t(M) * N, 0.0);
  for (int i = 0; i < M; ++i)
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < N; ++j)
        want[size_t(i) * N + j] += double(a[1 + size_t(i) * K + k]) * b[1 + size_t(k) * N + j];
  auto got = C.to_host();
  CHECK(std::isnan(got[0]));  // nothing was written in front of C
  got.erase(got.begin());
  const Check check = compare_exact(got, want, size_t(N));
  INFO(check.text());
  REQUIRE(check.ok);
}

}  // namespace

TEST_CASE("04 float4 global: every shape, both paths") { check_both_paths(gemm_vectorized_global, 128, 128, 8); }
TEST_CASE("04 float4 shared: every shape, both paths") { check_both_paths(gemm_vectorized_shared, 128, 128, 8); }
TEST_CASE("04 register prefetch: every shape, both paths") { check_both_paths(gemm_prefetch, 128, 128, 8); }
TEST_CASE("04 cp.async: every shape, both paths") { check_both_paths(gemm_double_buffer, 128, 128, 8); }
TEST_CASE("04 warp tile 128×256×16: every shape, both paths, in either order of the FMAs") {
  check_both_paths(gemm_warp_tile<Tile128x256>, 128, 256, 16);
  check_gemm_shapes(gemm_warp_tile<Tile128x256, false>, 128, 256, 16);
}
TEST_CASE("04 warp tile 128×128×16: every shape, both paths") {
  check_both_paths(gemm_warp_tile<Tile128x128>, 128, 128, 16);
}
TEST_CASE("04 warp tile 64×64×32, K over 4: every shape, both paths") {
  check_both_paths(gemm_warp_tile<Tile64x64>, 64, 64, 32);
}
TEST_CASE("04 warp tile 32×64×64, K over 8: every shape, both paths") {
  check_both_paths(gemm_warp_tile<Tile32x64>, 32, 64, 64);
}
TEST_CASE("04 best: every shape, both paths") { check_both_paths(gemm_best, 128, 256, 16); }

TEST_CASE("04 skinny: 1 to 16 rows, whole lines and sectors, both paths") {
  const GemmLauncher lines = [](Stream& stream, const Gemm& p) { gemm_skinny_lanes(stream, p, 8); };
  const GemmLauncher sectors = [](Stream& stream, const Gemm& p) { gemm_skinny_lanes(stream, p, 2); };
  const GemmLauncher few = [](Stream& stream, const Gemm& p) {
    gemm_skinny_lanes(stream, p, 8, SkinnyTile::kFewStages);
  };
  uint64_t seed = 1;
  for (int M : {1, 3, 4, 5, 16})
    for (int N : {1, 8, 31, 36, 65})
      for (int K : {1, 4, 127, 128, 516, 641}) {  // up to six slabs: the ring goes round
        check_gemm_exact(lines, M, N, K, ++seed);
        check_gemm_exact(sectors, M, N, K, ++seed);
        if (N == 36) check_gemm_exact(few, M, N, K, ++seed);
      }
}

TEST_CASE("04: the same sums, bit for bit, in every run") {
  const int M = 100, N = 70, K = 700;
  for (int rows : {M, 7}) {  // tiles with K over several warps, and the skinny form
    const DeviceBuffer<float> A(random_uniform(size_t(M) * K, 1)), B(random_uniform(size_t(K) * N, 2));
    DeviceBuffer<float> C(size_t(rows) * N), D(size_t(rows) * N);
    Stream stream;
    gemm_best(stream, Gemm{A.data(), B.data(), C.data(), rows, N, K});
    gemm_best(stream, Gemm{A.data(), B.data(), D.data(), rows, N, K});
    stream.synchronize();
    CHECK(C.to_host() == D.to_host());
  }
}

TEST_CASE("04: the tile that fills the card is chosen") {
  const auto chosen = [](int M, int N, int K, int multiprocessors) {
    return std::string(best_tile(Gemm{nullptr, nullptr, nullptr, M, N, K}, multiprocessors).name);
  };
  CHECK(chosen(4096, 4096, 4096, 132) == "128×256×16, stream-K");
  CHECK(chosen(8192, 8192, 8192, 132) == "128×256×16, stream-K");
  CHECK(chosen(2048, 2048, 2048, 132) == "128×256×16, stream-K");  // 128 tiles: most of one wave
  CHECK(chosen(4095, 4097, 1023, 132) == "128×256×16, stream-K");  // 544 tiles: 4.1 waves, and 1056 of 128×128 are 8
  CHECK(chosen(4095, 4097, 256, 132) == "128×128×16");             // K too short for what the shares move
  CHECK(chosen(127, 4096, 4096, 132) == "128×256×16, stream-K");   // 16 tiles in 132 shares
  CHECK(chosen(1024, 1024, 1024, 132) == "64×64×32, K over 4");    // 256 blocks, 2 each
  CHECK(chosen(512, 512, 512, 132) == "32×64×64, K over 8");       // 128 blocks, 1 each
  CHECK(chosen(512, 512, 512, 8) == "128×256×16, stream-K");       // a small card is full sooner: 8 tiles
  CHECK(skinny_lanes(Gemm{nullptr, nullptr, nullptr, 1, 4096, 4096}, 132) == 8);
  CHECK(skinny_lanes(Gemm{nullptr, nullptr, nullptr, 1, 1024, 4096}, 132) == 2);
}

TEST_CASE("04: matrices that do not start at 16 bytes take the 4-byte path") {
  for (GemmLauncher launcher :
       {gemm_vectorized_global, gemm_vectorized_shared, gemm_prefetch, gemm_double_buffer, gemm_best})
    check_unaligned_pointers(launcher);
  alignas(16) float storage[8] = {};
  CHECK(rows_of_B_aligned(Gemm{storage, storage, storage, 1, 4, 3}));
  CHECK(!rows_of_B_aligned(Gemm{storage, storage + 1, storage, 1, 4, 3}));
  CHECK(!all_rows_aligned(Gemm{storage, storage, storage, 1, 4, 3}));
  CHECK(all_rows_aligned(Gemm{storage, storage, storage, 1, 4, 4}));
}

TEST_CASE("04 every rung: NaN and infinity come through") {
  for (GemmLauncher launcher :
       {gemm_vectorized_global, gemm_vectorized_shared, gemm_prefetch, gemm_double_buffer, gemm_best})
    check_gemm_special_values(launcher);
}

#if !ON_GPU
namespace {
// The double buffer without its only barrier: the wait makes a thread's own copies visible to itself, not its
// neighbours' to it.
__global__ void double_buffer_missing_barrier(const float* A, const float* B, float* C, int M, int N, int K) {
  constexpr int kStage = BlockTile::kStage, kSizeOfA = BlockTile::BK * BlockTile::kRowOfA;
  __shared__ __align__(16) float stages[2 * kStage];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sum[8][8] = {};
  TileCopy<BlockTile, true> copy(A, B, M, N, K, 0, 0);
  copy.start(stages);
  int current = 0;
  for (int k0 = 0; k0 < K; k0 += BlockTile::BK) {
    cp_async_wait<0>();
    copy.start(stages + kStage - current);
    multiply_tile<TwoGroupsOfFour>(sum, stages + current, stages + current + kSizeOfA, tx, ty);
    current = kStage - current;
  }
  cp_async_wait<0>();
  write_tile<TwoGroupsOfFour, true>(C, sum, M, N, 0, 0, tx, ty);
}
}  // namespace

TEST_CASE("04: without the barrier behind cp.async.wait a thread reads what others have not copied yet") {
  const int M = 128, N = 128, K = 32;
  const auto a = random_integers(size_t(M) * K, 1), b = random_integers(size_t(K) * N, 2);
  DeviceBuffer<float> A(a), B(b), C(size_t(M) * N);
  Stream stream;
  launch(double_buffer_missing_barrier, dim3(1), dim3(BlockTile::kThreads), on(stream), A.data(), B.data(), C.data(), M,
         N, K);
  std::vector<double> want(size_t(M) * N, 0.0);
  for (int i = 0; i < M; ++i)
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < N; ++j) want[size_t(i) * N + j] += double(a[size_t(i) * K + k]) * b[size_t(k) * N + j];
  CHECK(compare_exact(C.to_host(), want, size_t(N)).mismatches > 0);
  gemm_double_buffer(stream, Gemm{A.data(), B.data(), C.data(), M, N, K});
  CHECK(compare_exact(C.to_host(), want, size_t(N)).mismatches == 0);
}
#endif
