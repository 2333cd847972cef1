// What the executor runs: every rendezvous, the order of things, and their results.
#include <algorithm>
#include <cmath>

#include "common/simt/kernel_test.hpp"

namespace executor_tests {

template <class... P, class... A>
void run(void (*kernel)(P...), int grid, int block, A... arguments) {
  Stream stream;
  launch(kernel, dim3(grid), dim3(block), on(stream), arguments...);
}

void shuffles(int* out) {
  const int lane = threadIdx.x;
  out[lane] = __shfl_sync(~0u, lane, 5);
  out[32 + lane] = __shfl_xor_sync(~0u, lane, 1);
  out[64 + lane] = __shfl_down_sync(~0u, lane, 4);
  out[96 + lane] = __shfl_up_sync(~0u, lane, 4);
  out[128 + lane] = __shfl_down_sync(~0u, lane, 4, 8);
  out[160 + lane] = __shfl_sync(~0u, lane, 9, 8);
}
void votes(unsigned* out) {
  const int lane = threadIdx.x;
  out[lane] = __ballot_sync(~0u, lane % 3 == 0);
  out[32 + lane] = __any_sync(~0u, lane == 31) + 2 * __all_sync(~0u, lane >= 0) + 4 * __all_sync(~0u, lane > 0);
  out[64 + lane] =
      __syncthreads_count(lane < 7) + 100 * __syncthreads_or(lane == 3) + 200 * __syncthreads_and(lane != 3);
}
void half_warps(float* out) {  // the two halves meet apart, in different branches
  const int lane = threadIdx.x;
  float v = float(lane);
  if (lane < 16)
    for (int o = 8; o > 0; o /= 2) v += __shfl_xor_sync(0x0000ffffu, v, o);
  else
    for (int o = 8; o > 0; o /= 2) v += __shfl_xor_sync(0xffff0000u, v, o);
  out[lane] = v;
}
void atomics(int* sum, float* float_sum, unsigned* most, unsigned* turns) {
  atomicAdd(sum, 1);
  atomicAdd(float_sum, 0.5f);
  atomicMax(most, blockIdx.x);
  atomicInc(turns, 9);
}
void tree_sum(const int* in, int* out) {
  __shared__ int tile[256];
  tile[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
  for (int o = 128; o > 0; o /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < o) tile[threadIdx.x] += tile[threadIdx.x + o];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = tile[0];
}
void reads_before_wait(const float4* in, float4* out) {
  __shared__ float4 tile[32];
  tile[threadIdx.x] = make_float4(-1, -1, -1, -1);
  cp_async_16(&tile[threadIdx.x], &in[threadIdx.x]);
  cp_async_commit();
  out[threadIdx.x] = tile[threadIdx.x];
  cp_async_wait<0>();
}
float* of_a_function() {
  __shared__ float values[2];
  return values;
}
void leaves_values(float* seen) {
  __shared__ float value, table[4][4];
  seen[3 * blockIdx.x] = value, seen[3 * blockIdx.x + 1] = table[3][3], seen[3 * blockIdx.x + 2] = of_a_function()[1];
  value = table[3][3] = of_a_function()[1] = 1;
}
void waits_for_a_flag(unsigned* ticket, unsigned* flag, bool raise) {
  const unsigned mine = atomicAdd(ticket, 1u);
  if (mine == 0 && raise) atomicExch(flag, 1u);
  if (mine > 0)
    while (atomicAdd(flag, 0u) == 0) __nanosleep(1);
}
void fails_while_another_waits(unsigned* ticket, unsigned* flag) {
  if (atomicAdd(ticket, 1u) == 0) __shfl_sync(1u << 5, 0, 5);  // names a lane that is not there
  while (atomicAdd(flag, 0u) == 0) __nanosleep(1);
}
void index_3d(int* out) {
  const int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
  const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  out[block * 24 + x + blockDim.x * (y + blockDim.y * z)] += 1;
}
void warp_runs_ahead(int* out) {  // a barrier is missing between the write and the read of the other warp's value
  __shared__ int value[2];
  const int warp = threadIdx.x / 32;
  value[warp] = -1;
  __syncthreads();
  int lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i) lane = __shfl_xor_sync(~0u, lane, 1);
  value[warp] = warp;
  for (int i = 0; i < 4; ++i) lane = __shfl_xor_sync(~0u, lane, 1);
  out[threadIdx.x] = value[1 - warp];
}
void order_dependent(int* next, int* got) { got[blockIdx.x] = (*next)++; }

}  // namespace executor_tests
using namespace executor_tests;

TEST_CASE("shuffles") {
  DeviceBuffer<int> out(192);
  run(shuffles, 1, 32, out.data());
  const auto got = out.to_host();
  for (int lane = 0; lane < 32; ++lane) {
    CHECK(got[lane] == 5);
    CHECK(got[32 + lane] == (lane ^ 1));
    CHECK(got[64 + lane] == (lane + 4 < 32 ? lane + 4 : lane));
    CHECK(got[96 + lane] == (lane >= 4 ? lane - 4 : lane));
    CHECK(got[128 + lane] == (lane % 8 + 4 < 8 ? lane + 4 : lane));
    CHECK(got[160 + lane] == lane / 8 * 8 + 1);
  }
}
TEST_CASE("votes, of a warp and of a block") {
  DeviceBuffer<unsigned> out(96);
  run(votes, 1, 32, out.data());
  const auto got = out.to_host();
  for (int lane = 0; lane < 32; ++lane) {
    CHECK(got[lane] == 0x49249249u);
    CHECK(got[32 + lane] == 3);
    CHECK(got[64 + lane] == 107);
  }
}
TEST_CASE("half warps meet apart from each other") {
  DeviceBuffer<float> out(32);
  run(half_warps, 1, 32, out.data());
  const auto got = out.to_host();
  for (int lane = 0; lane < 32; ++lane) CHECK(got[lane] == (lane < 16 ? 120.f : 376.f));
}
TEST_CASE("atomics, from blocks that run side by side") {
  DeviceBuffer<int> sum(std::vector<int>{0});
  DeviceBuffer<float> float_sum(std::vector<float>{0});
  DeviceBuffer<unsigned> most(std::vector<unsigned>{0}), turns(std::vector<unsigned>{0});
  run(atomics, 200, 64, sum.data(), float_sum.data(), most.data(), turns.data());
  CHECK(sum.to_host()[0] == 12800);
  CHECK(float_sum.to_host()[0] == 6400.f);
  CHECK(most.to_host()[0] == 199);
  CHECK(turns.to_host()[0] == 0);  // 12800 turns of a counter that wraps at 10
}
TEST_CASE("barriers in a loop: a tree sum in every block") {
  std::vector<int> in(256 * 50);
  for (size_t i = 0; i < in.size(); ++i) in[i] = int(i * 31 % 97);
  DeviceBuffer<int> from(in), to(50);
  const uint64_t before = simt::counters().barriers;
  run(tree_sum, 50, 256, from.data(), to.data());
  CHECK(simt::counters().barriers - before == 50 * 8);
  const auto got = to.to_host();
  for (int b = 0; b < 50; ++b) {
    int want = 0;
    for (int i = 0; i < 256; ++i) want += in[b * 256 + i];
    CHECK(got[b] == want);
  }
}
TEST_CASE("an asynchronous copy is not there before it was waited for") {
  DeviceBuffer<float4> from(std::vector<float4>(32, make_float4(1, 2, 3, 4))), to(32);
  simt::set_early_copies(false);
  run(reads_before_wait, 1, 32, from.data(), to.data());
  CHECK(to.to_host()[9].x == -1);
  simt::set_early_copies(true);  // as hardware may as well
  run(reads_before_wait, 1, 32, from.data(), to.data());
  simt::set_early_copies(false);
  CHECK(to.to_host()[9].x == 1);
}
TEST_CASE("what a block leaves in static shared memory is not there for the next") {
  for (int i = 0; i < 2; ++i) {
    DeviceBuffer<float> seen(std::vector<float>(3 * 20, 0.f));
    run(leaves_values, 20, 1, seen.data());
    for (float value : seen.to_host()) CHECK(std::isnan(value));
  }
}
TEST_CASE("a warp runs ahead of the others, so that a missing barrier shows behind any number of shuffles") {
  DeviceBuffer<int> out(64);
  run(warp_runs_ahead, 1, 64, out.data());
  CHECK(out.to_host()[0] == -1);
  CHECK(out.to_host()[32] == 0);
}
TEST_CASE(
    "a block may wait for another that runs; where none is left or one has failed it is refused, and does not hang") {
  for (int seed = 0; seed < 10; ++seed) {
    DeviceBuffer<unsigned> ticket(std::vector<unsigned>{0}), flag(std::vector<unsigned>{0});
    simt::set_block_order(uint64_t(seed));
    run(waits_for_a_flag, 8, 1, ticket.data(), flag.data(), true);
    CHECK(flag.to_host()[0] == 1);
    ticket.upload({0}), flag.upload({0});
    CHECK(has(refusal(waits_for_a_flag, 2, 1, 0, ticket.data(), flag.data(), false), "none is left that runs"));
    ticket.upload({0});
    const std::string message = refusal(fails_while_another_waits, 2, 1, 0, ticket.data(), flag.data());
    CHECK(has(message, "__shfl_sync") + has(message, "mask") > 0);
  }
  simt::set_block_order(0);
}
TEST_CASE("indices in three dimensions") {
  DeviceBuffer<int> out(std::vector<int>(24 * 12, 0));
  Stream stream;
  launch(index_3d, dim3(2, 3, 2), dim3(4, 3, 2), on(stream), out.data());
  CHECK(out.to_host() == std::vector<int>(24 * 12, 1));
}
TEST_CASE("blocks start in another order when a seed says so") {
  DeviceBuffer<int> next(std::vector<int>{0}), got(16);
  Stream stream;
  simt::set_block_order(42);
  if (simt::worker_count() == 1) launch(order_dependent, dim3(16), dim3(1), on(stream), next.data(), got.data());
  simt::set_block_order(0);
  if (simt::worker_count() == 1) CHECK_FALSE(std::is_sorted(got.to_host().begin(), got.to_host().end()));
  DeviceBuffer<int> sum(std::vector<int>{0});
  simt::set_block_order(7);
  DeviceBuffer<float> float_sum(std::vector<float>{0});
  DeviceBuffer<unsigned> most(std::vector<unsigned>{0}), turns(std::vector<unsigned>{0});
  run(atomics, 200, 64, sum.data(), float_sum.data(), most.data(), turns.data());
  simt::set_block_order(0);
  CHECK(sum.to_host()[0] == 12800);
}
