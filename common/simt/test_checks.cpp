// What else the instrumented build refuses: for each rule a kernel that breaks it, and beside it one that keeps it.
#include "common/simt/instrumented_test.hpp"

namespace checked {

// Places ---------------------------------------------------------------------------------------------------------------

void past_the_end(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x + 1];  // [past]
}
void before_the_start(float* out) {
  out[int(threadIdx.x) - 1] = 1;  // [before]
}
void of_the_host(const int* in, int* out) {
  out[0] = in[0];  // [host]
}
void dynamic_too_far(int* out) {
  int* shared = dynamic_shared<int>();
  shared[threadIdx.x] = 1;  // [dynamic]
  out[threadIdx.x] = 1;
}
void array_index(int* out, int column) {
  __shared__ int tile[4][32];
  tile[threadIdx.x][column] = 1;  // [index]
  out[0] = tile[threadIdx.x][column];
}
void misaligned(const float* in, float4* out) {
  store_vec(&out[0], load_vec<float4>(in + 1));  // [misaligned]
}

// Values and copies ----------------------------------------------------------------------------------------------------

void nobody_wrote(int* out) {
  __shared__ int tile[64];
  if (threadIdx.x < 63) tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];  // [unwritten]
}
void other_block_wrote(int* out) {
  __shared__ int value;
  if (blockIdx.x == 0) value = 1;
  out[blockIdx.x] = value;  // [stale]
}
template <bool WAIT>
void leaks(const float4* in) {
  __shared__ float4 tile[32];
  cp_async_16(&tile[threadIdx.x], &in[threadIdx.x]);  // [leak]
  cp_async_commit();
  if (WAIT) cp_async_wait<0>();
}

}  // namespace checked
using namespace checked;

TEST_CASE("checks: out of bounds, before anything is touched") {
  DeviceBuffer<float> in(32), out(32);
  std::string message = refusal(past_the_end, 1, 32, 0, in.data(), out.data());
  INFO(message);
  CHECK(has(message, at("past")));
  CHECK(has(message, "thread (31,0,0): out of bounds: reads 4 bytes"));
  CHECK(has(message, "0 bytes behind the end of a buffer of 128 bytes"));
  message = refusal(before_the_start, 1, 32, 0, out.data());
  CHECK(has(message, at("before")));
  CHECK(has(message, "4 bytes before a buffer of 128 bytes"));
  DeviceBuffer<int> ints(32);
  const std::vector<int> host(1000);
  message = refusal(of_the_host, 1, 1, 0, host.data(), ints.data());
  CHECK(has(message, at("host")));
  CHECK(has(message, "outside of device memory"));
  message = refusal(dynamic_too_far, 1, 32, 100, ints.data());
  INFO(message);
  CHECK(has(message, at("dynamic")));
  CHECK(
      has(message, "thread (25,0,0): out of bounds: writes 4 bytes at byte 100 of 100 bytes of dynamic shared memory"));
  CHECK(refusal(array_index, 1, 1, 0, ints.data(), 31).empty());
  message = refusal(array_index, 1, 1, 0, ints.data(), 32);
  CHECK(has(message, at("index")));
  CHECK(has(message, "index 32 of 'int [32]'"));
}
TEST_CASE("checks: memory that was given back is out of bounds") {
  DeviceBuffer<float> out(32);
  const float* gone = DeviceBuffer<float>(32).data();
  CHECK(has(refusal(past_the_end, 1, 1, 0, gone, out.data()), at("past")));
}
TEST_CASE("checks: a vector access starts at a multiple of its size") {
  DeviceBuffer<float> in(std::vector<float>(8, 0.f));
  DeviceBuffer<float4> out(1);
  const std::string message = refusal(misaligned, 1, 1, 0, in.data(), out.data());
  CHECK(has(message, at("misaligned")));
  CHECK(has(message, "reads 16 bytes at an address that is not a multiple of 16"));
}
TEST_CASE("checks: shared memory that nobody has written, or another block") {
  DeviceBuffer<int> out(64);
  std::string message = refusal(nobody_wrote, 1, 64, 0, out.data());
  INFO(message);
  CHECK(has(message, at("unwritten")));
  CHECK(has(message, "thread (63,0,0): uninitialised"));
  message = refusal(other_block_wrote, 2, 1, 0, out.data());
  CHECK(has(message, at("stale")));
  CHECK(has(message, "block (1,0,0)"));
}
TEST_CASE("checks: a kernel that ends while a copy is under way") {
  DeviceBuffer<float4> in(std::vector<float4>(32));
  for (const bool early : {false, true}) {
    simt::set_early_copies(early);
    CHECK(refusal(leaks<true>, 1, 32, 0, in.data()).empty());
    const std::string message = refusal(leaks<false>, 1, 32, 0, in.data());
    INFO(message);
    CHECK(has(message, at("leak")));
    CHECK(has(message, "cp_async_wait is missing"));
  }
  simt::set_early_copies(false);
}
