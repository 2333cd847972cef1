// Why the barriers are there: the same tile read with and without the one behind the asynchronous copies.
#include "06_fused_attention/tile_copy.cuh"
#include "common/catch.hpp"

namespace barrier_test {  // a named one: messages show a kernel by its symbol

// out[t] = sum of row t of a [64, 64] tile that the whole block has copied.
template <bool BARRIER>
__global__ void row_sums(const float* in, float* out) {
  float* const tile = dynamic_shared<float>();
  copy_tile<64, 64, 64, PackedRows<float, 64>>(tile, in, 0, 64, 0, 64);
  cp_async_commit();
  cp_async_wait<0>();  // this thread's own copies have arrived; those of the others need the barrier
  if (BARRIER) __syncthreads();
  float sum = 0.f;
  for (int d = 0; d < 64; ++d) sum += tile[threadIdx.x * 64 + d];
  out[threadIdx.x] = sum;
}

std::vector<float> run(void (*kernel)(const float*, float*)) {
  std::vector<float> in(64 * 64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = float(i / 64 + 1);
  DeviceBuffer<float> device_in(in), out(64);
  Stream stream;
  launch(kernel, dim3(1), dim3(64), on(stream).smem(64 * 64 * sizeof(float)), device_in.data(), out.data());
  stream.synchronize();
  return out.to_host();
}

}  // namespace barrier_test

TEST_CASE("06 with the barrier behind the copies every row is right") {
  const std::vector<float> sums = barrier_test::run(barrier_test::row_sums<true>);
  for (int row = 0; row < 64; ++row) REQUIRE(sums[size_t(row)] == 64.f * float(row + 1));
}

#if !ON_GPU  // on a card the outcome depends on timing, and the tools would rightly report the race
TEST_CASE("06 without it the executor shows that a thread reads what nobody has written yet") {
  const std::vector<float> sums = barrier_test::run(barrier_test::row_sums<false>);
  REQUIRE(sums[0] != sums[0]);  // NaN: the poison of untouched shared memory
}
#endif
