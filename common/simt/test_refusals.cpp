// What the executor refuses in any build, with kernel, block, thread and line.
#include <sys/wait.h>
#include <unistd.h>

#include "common/simt/kernel_test.hpp"

namespace refused {  // a named one: messages show a kernel by its symbol, which a nameless one hides

void lanes(int* out) { out[threadIdx.x] = __shfl_sync(~0u, int(threadIdx.x), threadIdx.x); }
void early_return() {
  if (threadIdx.x == 3) return;
  __syncthreads();
}
void late_return() {
  if (threadIdx.x == 0) __syncthreads();
}
void divergent_barrier() {
  if (threadIdx.x < 5)
    __syncthreads();
  else
    __syncthreads();
}
void absent_lane() { __shfl_sync(0x0000ffffu | 1u << (threadIdx.x % 32), 1, 0); }
void returned_lane() {
  if (threadIdx.x == 7) return;
  __syncwarp();
}
void short_warp() { __syncwarp(); }
void mismatched_masks() {
  if (threadIdx.x < 16)
    __syncwarp(0xffffffffu);
  else
    __syncwarp(0xffff0000u), __syncthreads();
}
void unaligned_copy(const float4* in, int shift) {
  __shared__ __align__(16) float4 tile[2];
  cp_async_16(tile, reinterpret_cast<const char*>(in) + shift);
  cp_async_commit();
  cp_async_wait<0>();
}
void copies_4_unaligned(const float* in) {
  __shared__ float tile[2];
  cp_async_4(reinterpret_cast<char*>(tile) + 1, in);  // [copy of 4]
}
void copies_16_unaligned(const float4* in) {
  __shared__ float4 tile[2];
  cp_async_16(reinterpret_cast<char*>(tile) + 4, in);  // [copy of 16]
}
template <bool TRANSPOSED>
void unaligned_row() {
  __shared__ __align__(16) uint16_t tile[72];
  uint32_t r[4];
  if (TRANSPOSED)
    ldmatrix_x4_trans(r, tile + 1);  // [transposed row]
  else
    ldmatrix_x4(r, tile + 1);  // [row]
}
void lane_misses_mma() {
  if (threadIdx.x == 3) return;
  float c[4] = {};
  const uint32_t a[4] = {}, b[2] = {};
  mma_m16n8k16_bf16(c, a, b);  // [mma]
}
void large_array(float* out, int i) {
  volatile float values[32768];  // 128 KB
  if (threadIdx.x == 5) values[i] = 1;
  out[threadIdx.x] = threadIdx.x == 5 ? values[i] : 0;
}
void launches(int* out) {
  Stream stream;
  launch(lanes, dim3(1), dim3(32), on(stream), out);
}

}  // namespace refused
using namespace refused;

TEST_CASE("refused: a thread that returns before the barrier of the others") {
  for (auto* kernel : {early_return, late_return}) {
    const std::string message = refusal(kernel, 2, 64, 0);
    INFO(message);
    CHECK(has(message, "_return"));
    CHECK(has(message, "block ("));
    CHECK(has(message, "must be reached by every thread"));
    CHECK(has(message, "test_refusals.cpp:"));
  }
}
TEST_CASE("refused: two barriers in two branches") {
  const std::string message = refusal(divergent_barrier, 1, 32, 0);
  INFO(message);
  CHECK(has(message, "divergent barrier"));
  CHECK(has(message, "thread (5,0,0)"));
}
TEST_CASE("refused: masks that name lanes which cannot come") {
  CHECK(has(refusal(returned_lane, 1, 32, 0), "names lane 7, which has returned"));
  CHECK(has(refusal(short_warp, 1, 48, 0), "this warp has only 16 threads"));
  CHECK(has(refusal(absent_lane, 1, 32, 0), "which has returned"));
}
TEST_CASE("refused: a deadlock is reported, with where everybody waits") {
  const std::string message = refusal(mismatched_masks, 1, 32, 0);
  INFO(message);
  CHECK(has(message, "deadlock in "));
  CHECK(has(message, "16 wait at the barrier"));
  CHECK(has(message, "mask 0xffffffff"));
}
TEST_CASE("refused: an asynchronous copy from an address that is not a multiple of its size") {
  DeviceBuffer<float4> in(2);
  CHECK(has(refusal(unaligned_copy, 1, 1, 0, in.data(), 4), "not a multiple of 16 bytes"));
  CHECK(refusal(unaligned_copy, 1, 1, 0, in.data(), 16).empty());
}
TEST_CASE("refused: what common/ptx.hpp complains of stands in the kernel's own line") {
  DeviceBuffer<float4> in(2);
  CHECK(has(refusal(copies_4_unaligned, 1, 1, 0, reinterpret_cast<const float*>(in.data())), at("copy of 4") + ": "));
  CHECK(has(refusal(copies_16_unaligned, 1, 1, 0, in.data()), at("copy of 16") + ": "));
  CHECK(has(refusal(unaligned_row<false>, 1, 32, 0), at("row") + ": "));
  CHECK(has(refusal(unaligned_row<true>, 1, 32, 0), at("transposed row") + ": "));
  CHECK(has(refusal(lane_misses_mma, 1, 32, 0), at("mma") + ": "));
}
TEST_CASE("refused: a thread that needs more stack than there is") {
  DeviceBuffer<float> out(32);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    refusal(large_array, dim3(1), dim3(32), 0, out.data(), 7);
    _exit(0);
  }
  close(ends[1]);
  char text[1000];
  const ssize_t length = read(ends[0], text, sizeof text);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const std::string message(text, length > 0 ? size_t(length) : 0);
  INFO(message);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(has(message, "large_array block (0,0,0) thread (5,0,0): stack of 64 KiB exceeded"));
}
TEST_CASE("refused: a kernel that launches a kernel") {
  DeviceBuffer<int> out(192);
  CHECK(has(refusal(launches, 1, 1, 0, out.data()), "a kernel launches a kernel"));
}
TEST_CASE("after a refusal the executor runs on") {
  refusal(early_return, 4, 64, 0);
  DeviceBuffer<int> out(192);
  CHECK(refusal(lanes, 1, 32, 0, out.data()).empty());
  CHECK(out.to_host()[31] == 31);
}
