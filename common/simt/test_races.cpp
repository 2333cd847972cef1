// The races that the instrumented build finds: for each rule a kernel that breaks it, and beside it one that keeps it.
#include "common/simt/instrumented_test.hpp"

namespace races {

template <bool BARRIER>
void neighbour(int* out) {
  __shared__ int tile[64];
  const int t = threadIdx.x;
  tile[t] = t;  // [write of neighbour]
  if (BARRIER) __syncthreads();
  out[t] = tile[(t + 32) % 64];  // [read of neighbour]
}
template <bool BARRIER>
void overwrite(int* out) {  // the second barrier of a tile loop
  __shared__ int tile[64];
  const int t = threadIdx.x;
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    tile[t] = t + i;  // [overwrite]
    __syncthreads();
    sum += tile[63 - t];  // [read before]
    if (BARRIER) __syncthreads();
  }
  out[t] = sum;
}
template <bool SYNC>
void within_a_warp(int* out) {
  __shared__ int tile[32];
  const int t = threadIdx.x;
  tile[t] = t;  // [write in warp]
  if (SYNC) __syncwarp();
  out[t] = tile[t ^ 1];  // [read in warp]
}
template <bool FULL>
void half_meets(int* out) {  // lanes 0 to 15 meet; that says nothing to lanes 16 to 31
  __shared__ int tile[32];
  const int t = threadIdx.x;
  tile[t] = t;
  if (FULL || t < 16) __syncwarp(t < 16 ? 0xffffu : 0xffff0000u);
  out[t] = tile[t ^ 1];  // [read of half]
}
void over_a_third_lane(int* out) {  // 0 meets 1, 1 meets 2: what 0 wrote is there for 2
  __shared__ int value;
  const int t = threadIdx.x;
  if (t == 0) value = 7;
  if (t <= 1) __syncwarp(3);
  if (t == 1 || t == 2) __syncwarp(6);
  if (t == 2) out[0] = value;
}
void shuffles_order(int* out) {
  __shared__ int tile[32];
  const int t = threadIdx.x;
  tile[t] = t;
  const int v = __shfl_xor_sync(~0u, t, 1);
  out[t] = tile[31 - t] + v;
}
void all_write_one(int* out) {
  *out = threadIdx.x;  // [all write]
}
void between_blocks(int* x) {
  if (threadIdx.x == 0) x[blockIdx.x] = 1;               // [block writes]
  if (threadIdx.x == 0) x[8] = x[(blockIdx.x + 1) % 4];  // [block reads]
}
void same_word_other_half(uint16_t* x) { x[threadIdx.x] = static_cast<uint16_t>(x[threadIdx.x] + 1); }
void atomic_and_plain(int* x) {
  if (threadIdx.x == 0)
    x[0] = 1;  // [plain]
  else
    atomicAdd(x, 1);  // [atomic]
}
// The block that comes last adds up what all have left, as CUDA's threadFenceReduction does.
template <bool FENCE>
void last_block(int* parts, unsigned* arrived, int* sum) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x;  // [part]
    if (FENCE) __threadfence();
    last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 1) return;
  int total = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) total += parts[i];  // [parts]
  *sum = total;
}
template <int WAIT>  // 0: right; 1: reads before it waits; 2: waits, but reads the others' before a barrier
void copy_and_read(const float4* in, float4* out) {
  __shared__ float4 tile[64];
  const int t = threadIdx.x;
  cp_async_16(&tile[t], &in[t]);  // [copies]
  cp_async_commit();
  if (WAIT == 1) __syncthreads();
  if (WAIT != 1) cp_async_wait<0>();
  if (WAIT == 0) __syncthreads();
  store_vec(&out[t], load_vec<float4>(&tile[63 - t]));  // [reads copy]
  cp_async_wait<0>();
}

}  // namespace races
using namespace races;

TEST_CASE("checks: a race names both lines, the block and both threads") {
  DeviceBuffer<int> out(64);
  CHECK(refusal(neighbour<true>, 2, 64, 0, out.data()).empty() == false);  // both blocks write the same words
  CHECK(refusal(neighbour<true>, 1, 64, 0, out.data()).empty());
  const std::string message = refusal(neighbour<false>, 1, 64, 0, out.data());
  INFO(message);
  CHECK(has(message, "data race on shared memory"));
  CHECK(has(message, "neighbour<false> block (0,0,0) thread ("));
  CHECK(has(message, at("write of neighbour")));
  CHECK(has(message, at("read of neighbour")));
  CHECK(has(message, "no __syncthreads lies between"));
}
TEST_CASE("checks: a tile that is overwritten while others read it") {
  DeviceBuffer<int> out(64);
  CHECK(refusal(overwrite<true>, 1, 64, 0, out.data()).empty());
  const std::string message = refusal(overwrite<false>, 1, 64, 0, out.data());
  INFO(message);
  CHECK(has(message, at("overwrite")));
  CHECK(has(message, at("read before")));
}
TEST_CASE("checks: lanes of a warp need __syncwarp, a shuffle, or a chain of meetings") {
  DeviceBuffer<int> out(32);
  CHECK(refusal(within_a_warp<true>, 1, 32, 0, out.data()).empty());
  CHECK(refusal(shuffles_order, 1, 32, 0, out.data()).empty());
  CHECK(refusal(over_a_third_lane, 1, 32, 0, out.data()).empty());
  CHECK(refusal(half_meets<true>, 1, 32, 0, out.data()).empty());
  std::string message = refusal(within_a_warp<false>, 1, 32, 0, out.data());
  INFO(message);
  CHECK(has(message, "no __syncwarp lies between"));
  CHECK(has(message, at("read in warp")));
  CHECK(has(message, at("write in warp")));
  message = refusal(half_meets<false>, 1, 32, 0, out.data());
  CHECK(has(message, at("read of half")));
  message = refusal(all_write_one, 1, 32, 0, out.data());
  CHECK(has(message, at("all write")));
}
TEST_CASE("checks: blocks are not ordered, except by an atomic behind a fence") {
  DeviceBuffer<int> x(std::vector<int>(9, 0)), parts(64), sum(1);
  const std::string message = refusal(between_blocks, 4, 32, 0, x.data());
  INFO(message);
  CHECK(has(message, "data race on global memory"));
  CHECK(has(message, "orders the blocks"));
  CHECK((has(message, at("block reads")) || has(message, at("block writes"))));
  DeviceBuffer<unsigned> arrived(std::vector<unsigned>{0});
  for (int seed = 0; seed < 20; ++seed) {
    simt::set_block_order(seed);
    CHECK(refusal(last_block<true>, 64, 32, 0, parts.data(), arrived.data(), sum.data()).empty());
    CHECK(sum.to_host()[0] == 2016);
  }
  simt::set_block_order(0);
  const std::string unfenced = refusal(last_block<false>, 64, 32, 0, parts.data(), arrived.data(), sum.data());
  CHECK(has(unfenced, at("parts")));
  CHECK(has(unfenced, at("part") + "; "));
}
TEST_CASE("checks: two halves of a word are two places, an atomic and a plain access are one") {
  DeviceBuffer<uint16_t> halves(std::vector<uint16_t>(64, 1));
  CHECK(refusal(same_word_other_half, 1, 64, 0, halves.data()).empty());
  CHECK(halves.to_host()[63] == 2);
  DeviceBuffer<int> x(std::vector<int>{0});
  const std::string message = refusal(atomic_and_plain, 1, 2, 0, x.data());
  CHECK(has(message, at("atomic")));
  CHECK(has(message, at("plain")));
}
TEST_CASE("checks: an asynchronous copy is read after its wait, by others after a barrier behind that") {
  DeviceBuffer<float4> in(std::vector<float4>(64)), out(64);
  for (const bool early : {false, true}) {
    simt::set_early_copies(early);
    CHECK(refusal(copy_and_read<0>, 1, 64, 0, in.data(), out.data()).empty());
    const std::string unwaited = refusal(copy_and_read<1>, 1, 64, 0, in.data(), out.data());
    INFO(unwaited);
    CHECK(has(unwaited, "no cp_async_wait lies between"));
    CHECK(has(unwaited, at("reads copy")));
    CHECK(has(unwaited, at("copies")));
    const std::string no_barrier = refusal(copy_and_read<2>, 1, 64, 0, in.data(), out.data());
    INFO(no_barrier);
    CHECK(has(no_barrier, "data race"));
  }
  simt::set_early_copies(false);
}
TEST_CASE("checks: a barrier that is taken away on trial, and put back") {
  DeviceBuffer<int> out(64);
  const int line = marked_line("write of neighbour") + 1;
  simt::set_absent_barrier(__FILE__, line);
  CHECK(has(refusal(neighbour<true>, 1, 64, 0, out.data()), "data race"));
  simt::set_absent_barrier("", 0);
  CHECK(refusal(neighbour<true>, 1, 64, 0, out.data()).empty());
}
