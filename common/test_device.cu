#include <cstring>

#include "common/catch.hpp"
#include "common/launch.hpp"

namespace {
__global__ void add_one(int* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}
__global__ void reverse_in_shared(const int* in, int* out) {
  int* tile = dynamic_shared<int>();
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
__global__ void copy_async(const float4* in, float4* out, int valid) {
  __shared__ __align__(16) float4 tile[2][32];
  const int i = threadIdx.x;
  cp_async_16(&tile[0][i], &in[i]);
  cp_async_commit();
  cp_async_16(&tile[1][i], &in[32 + i], i < valid);
  cp_async_commit();
  cp_async_wait<1>();
  out[i] = tile[0][i];
  cp_async_wait<0>();
  out[32 + i] = tile[1][i];
}
__global__ void mma_product(const bfloat16* A,  // [16, 16]
                            const bfloat16* B,  // [8, 16]: B transposed, so that a column is contiguous
                            float* C) {         // [16, 8]
  __shared__ __align__(16) bfloat16 tile_a[16][16], tile_b[8][16];
  const int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) tile_a[i / 16][i % 16] = A[i];
  for (int i = lane; i < 128; i += 32) tile_b[i / 16][i % 16] = B[i];
  __syncthreads();
  uint32_t a[4], b[4];
  ldmatrix_x4(a, &tile_a[lane % 16][lane / 16 * 8]);
  ldmatrix_x4(b, &tile_b[lane % 8][lane / 8 % 2 * 8]);  // the last two matrices repeat the first two
  float c[4] = {0, 0, 0, 0};
  const uint32_t b_pair[2] = {b[0], b[1]};
  mma_m16n8k16_bf16(c, a, b_pair);
  const int row = lane / 4, col = lane % 4 * 2;
  C[row * 8 + col] = c[0];
  C[row * 8 + col + 1] = c[1];
  C[(row + 8) * 8 + col] = c[2];
  C[(row + 8) * 8 + col + 1] = c[3];
}
__global__ void transpose_fragment(const bfloat16* in,  // [8, 8]
                                   uint32_t* out) {     // [32]
  __shared__ __align__(16) bfloat16 tile[8][8];
  for (int i = threadIdx.x; i < 64; i += 32) tile[i / 8][i % 8] = in[i];
  __syncthreads();
  uint32_t r[4];
  ldmatrix_x4_trans(r, &tile[threadIdx.x % 8][0]);
  out[threadIdx.x] = r[0];
}
}  // namespace

TEST_CASE("a buffer starts as NaN and gives back what it was given") {
  const DeviceBuffer<float> fresh(5);
  for (float v : fresh.to_host()) CHECK(std::isnan(v));
  const std::vector<float> values{1, 2, 3};
  CHECK(DeviceBuffer<float>(values).to_host() == values);
}
TEST_CASE("memory in use is counted and comes back") {
  const size_t before = device_bytes_in_use();
  {
    const DeviceBuffer<char> buffer(1000);
    CHECK(device_bytes_in_use() == before + 1000);
  }
  CHECK(device_bytes_in_use() == before);
  CHECK(device_bytes_peak() >= before + 1000);
}
TEST_CASE("more memory than there is: an error, and the next allocation works") {
  CHECK_THROWS_AS(device_allocate(size_t(1) << 50), EnvironmentError);
  CHECK(DeviceBuffer<int>(std::vector<int>{4}).to_host()[0] == 4);
}
TEST_CASE("a launch runs every thread of every block") {
  DeviceBuffer<int> x(std::vector<int>(1000, 5));
  Stream stream;
  launch(add_one, dim3(4), dim3(256), on(stream), x.data(), 1000);
  stream.synchronize();
  CHECK(x.to_host() == std::vector<int>(1000, 6));
}
namespace {
__global__ void slowly_set(int* x, int value) {
  for (int i = 0; i < 200000; ++i) __threadfence();  // takes far longer than the copy that must not overtake it
  *x = value;
}
}  // namespace
TEST_CASE("to_host waits for kernels on other streams") {
  DeviceBuffer<int> x(std::vector<int>{1});
  Stream stream;
  launch(slowly_set, dim3(1), dim3(1), on(stream), x.data(), 2);
  CHECK(x.to_host()[0] == 2);
}
TEST_CASE("a launch that no card takes is an error") {
  DeviceBuffer<int> x(1);
  Stream stream;
  CHECK_THROWS_AS(launch(add_one, dim3(1), dim3(2048), on(stream), x.data(), 1), EnvironmentError);
  CHECK_THROWS_AS(launch(add_one, dim3(0), dim3(32), on(stream), x.data(), 1), EnvironmentError);
  CHECK_THROWS_AS(launch(add_one, dim3(1), dim3(32), on(stream).smem(1 << 20), x.data(), 1), EnvironmentError);
}
TEST_CASE("dynamic shared memory, also beyond 48 KB") {
  std::vector<int> in(64), want(64);
  for (int i = 0; i < 64; ++i) in[i] = i, want[63 - i] = i;
  DeviceBuffer<int> from(in), to(64);
  Stream stream;
  launch(reverse_in_shared, dim3(1), dim3(64), on(stream).smem(60 * 1024), from.data(), to.data());
  stream.synchronize();
  CHECK(to.to_host() == want);
}
TEST_CASE("a graph replays its launches and copies") {
  DeviceBuffer<int> x(std::vector<int>{0});
  Stream stream;
  const Graph graph = Graph::capture(stream, [&] {
    for (int i = 0; i < 3; ++i) launch(add_one, dim3(1), dim3(32), on(stream), x.data(), 1);
  });
  CHECK(graph.nodes() == 3);
  CHECK(x.to_host()[0] == 0);  // recording runs nothing
  graph.replay(stream);
  graph.replay(stream);
  stream.synchronize();
  CHECK(x.to_host()[0] == 6);
}
TEST_CASE("cp.async: groups, and zeros where the copy is not valid") {
  std::vector<float4> in(64);
  for (int i = 0; i < 64; ++i) in[i] = make_float4(i, i + 0.25f, i + 0.5f, i + 0.75f);
  DeviceBuffer<float4> from(in), to(64);
  Stream stream;
  launch(copy_async, dim3(1), dim3(32), on(stream), from.data(), to.data(), 20);
  stream.synchronize();
  const auto got = to.to_host();
  for (int i = 0; i < 64; ++i) CHECK(got[i].w == (i < 52 ? i + 0.75f : 0.f));
}
TEST_CASE("ldmatrix and mma.m16n8k16: a 16×16 by 16×8 product") {
  if (!device().has_bf16_mma) {
    SUCCEED("mma for bfloat16 needs sm_80");
    return;
  }
  std::vector<bfloat16> a(256), b(128);
  for (int i = 0; i < 256; ++i) a[i] = __float2bfloat16(float(i * 7 % 13 - 6));
  for (int i = 0; i < 128; ++i) b[i] = __float2bfloat16(float(i * 5 % 11 - 5));
  DeviceBuffer<bfloat16> A(a), B(b);
  DeviceBuffer<float> C(128);
  Stream stream;
  launch(mma_product, dim3(1), dim3(32), on(stream), A.data(), B.data(), C.data());
  stream.synchronize();
  const auto got = C.to_host();
  for (int row = 0; row < 16; ++row)
    for (int col = 0; col < 8; ++col) {
      float want = 0;
      for (int k = 0; k < 16; ++k) want += __bfloat162float(a[row * 16 + k]) * __bfloat162float(b[col * 16 + k]);
      CHECK(got[row * 8 + col] == want);
    }
}
TEST_CASE("ldmatrix.trans gives each lane two rows of its column") {
  std::vector<bfloat16> in(64);
  for (int i = 0; i < 64; ++i) in[i] = __float2bfloat16(float(i));
  DeviceBuffer<bfloat16> from(in);
  DeviceBuffer<uint32_t> to(32);
  Stream stream;
  launch(transpose_fragment, dim3(1), dim3(32), on(stream), from.data(), to.data());
  stream.synchronize();
  const auto got = to.to_host();
  for (int lane = 0; lane < 32; ++lane) {
    uint16_t want[2];
    std::memcpy(&want[0], &in[lane % 4 * 2 * 8 + lane / 4], 2);
    std::memcpy(&want[1], &in[(lane % 4 * 2 + 1) * 8 + lane / 4], 2);
    CHECK(got[lane] == (uint32_t(want[0]) | uint32_t(want[1]) << 16));
  }
}

namespace {
struct SixteenFloats {
  DeviceBuffer<float> values{16};
};
}  // namespace

TEST_CASE("Stream::scratch: one for each stream, made before a capture, alive as long as a graph needs it") {
  const size_t before = device_bytes_in_use();
  {
    auto stream = std::make_unique<Stream>();
    Stream other;
    CHECK_THROWS_AS(Graph::capture(*stream, [&] { stream->scratch<SixteenFloats>(); }), BadInput);
    CHECK(device_bytes_in_use() == before);
    SixteenFloats& mine = stream->scratch<SixteenFloats>();
    CHECK(&stream->scratch<SixteenFloats>() == &mine);
    CHECK(&other.scratch<SixteenFloats>() != &mine);
    float* const values = mine.values.data();
    const Graph graph =
        Graph::capture(*stream, [&] { fill_bytes(*stream, stream->scratch<SixteenFloats>().values.data(), 0, 64); });
    stream.reset();
    graph.replay(other);
    float back = 1;
    copy_bytes_to_host(other, &back, values, sizeof back);
    other.synchronize();
    CHECK(back == 0);
    CHECK(device_bytes_in_use() == before + 2 * 64);
  }
  CHECK(device_bytes_in_use() == before);
}
