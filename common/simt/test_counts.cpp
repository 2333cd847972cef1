// What the instrumented build counts: kernels whose requests can be counted by hand.
#include <algorithm>

#include "common/simt/counts.hpp"
#include "common/simt/instrumented_test.hpp"

namespace counted {

void rows_and_columns(const float* in, float* out) {
  __shared__ float tile[32][32], padded[32][33];
  const int t = threadIdx.x;
  tile[t][0] = in[t];         // [column]
  padded[t][0] = in[32 * t];  // [padded]
  __syncthreads();
  out[32 * blockIdx.x + t] = tile[0][0] + padded[0][0];  // [broadcast]
}
void two_tiles(const float* in, float* out) {
  __shared__ float tile[128];
  const int t = threadIdx.x;
  tile[t] = in[t];
  __syncthreads();
  const float first = tile[127 - t];  // [first tile]
  __syncthreads();
  tile[t] = 2 * first;
  __syncthreads();
  out[t] = tile[127 - t];  // [second tile]
}
void vectors(const float* in, float* out) {
  float* tile = dynamic_shared<float>();
  store_vec(tile + 4 * threadIdx.x, load_vec<float4>(in + 4 * threadIdx.x));  // [float4]
  __syncwarp();
  store_vec(out + 2 * threadIdx.x, load_vec<float2>(tile + 2 * threadIdx.x));  // [float2]
}
void assigned(const float4* in, float4* out, float2* pairs) {
  const int t = threadIdx.x;
  const float4 v = in[t];              // [assigned load]
  out[t] = make_float4(v.y, 1, 2, 3);  // [assigned store]
  __stcs(&out[32 + t], v);             // [streaming store]
  pairs[t] = make_float2(v.x, v.w);    // [pair]
}
void divergent(const float* in, float* out) {
  const int t = threadIdx.x;
  float sum = 0;
  for (int i = 0; i < 8; ++i) {
    if (i % 2 == t % 2) sum += in[t];  // [turns]: half a warp in each of the 8 turns
    sum += in[32 + i];                 // [all]
  }
  out[t] = sum;
}
void two_branches(const float* in, float* out) {
  const int t = threadIdx.x;
  float sum = 0;
  for (int i = 0; i < 8; ++i) {
    sum += in[i];  // [head]
    if ((i + t) % 2)
      sum += in[32 + t];  // [one branch]
    else
      sum -= in[t];  // [other branch]
  }
  out[t] = sum;
}
void code_out_of_line(const float* in, float* out, int n) {
  __shared__ float tile[32];
  const int t = threadIdx.x;
  for (int i = 0; i < 3; ++i) {
    float v = 0;
    if (__builtin_expect(t < n, 0)) v = in[32 * i + t];  // [moved away]: the compiler puts this behind the loop
    tile[t] = v;                                         // [by all]
    __syncwarp();
    out[t] = tile[31 - t];
    __syncwarp();
  }
}
void edge_of_a_tile(float* out, int rows, int cols) {
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int row = threadIdx.x / 16 + 2 * i, col = threadIdx.x % 16 + 16 * j;
      if (row < rows && col < cols) out[row * cols + col] = 1;  // [edge]
    }
}
void rows_of_zeros(const uint4* in, int rows) {  // eight chunks of 16 bytes a row; a row that does not exist is zeros
  uint32_t* tile = dynamic_shared<uint32_t>();
  for (int i = threadIdx.x; i < 32 * 8; i += blockDim.x) {
    const int row = i % 32, chunk = i / 32;
    const uint4 v = row < rows ? load_vec<uint4>(in + row * 8 + chunk) : make_uint4(0, 0, 0, 0);  // [rows that exist]
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
    for (int e = 0; e < 4; ++e) tile[(4 * chunk + e) * 32 + row] = words[e];  // [all rows]
  }
}
void leaves_earlier(const float* in, float* out, int n) {  // half of the warp has one turn less of the first loop
  float* tile = dynamic_shared<float>();
  for (int i = threadIdx.x; i < n; i += 32) cp_async_4(&tile[i], &in[i]);
  cp_async_commit();
  cp_async_wait<0>();
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 128)
    for (int p = 0; p < 4; ++p)
      if (i + 32 * p < n) sum += tile[i + 32 * p];  // [second loop]
  out[threadIdx.x] = sum;                           // [behind both]
}
void own_number_of_turns(const float* in, float* out) {
  const int t = threadIdx.x;
  float sum = 0;
  for (int i = 0; i <= t; ++i) sum += in[i];  // [own turns]
  out[t] = sum;                               // [together again]
}
void long_loop(const float* in, float* out, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += in[(i * 32 + threadIdx.x) % 1024];  // [loop]
  out[threadIdx.x] = sum;
}
void half_warps_shuffle(const float* in, float* out) {
  float v = in[threadIdx.x];  // [before]
  const unsigned mask = threadIdx.x < 16 ? 0xffffu : 0xffff0000u;
  for (int o = 8; o > 0; o /= 2) v += __shfl_xor_sync(mask, v, o);
  out[threadIdx.x] = v;  // [after]
}
void copies(const float4* in, float* out) {
  __shared__ float4 tile[32];
  cp_async_16(&tile[threadIdx.x], &in[threadIdx.x], threadIdx.x < 24);  // [copy]
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x].x;
}
void copies_of_zeros(const float* in, float* out) {
  __shared__ float tile[64], zeros[64];
  for (int i = 0; i < 2; ++i)
    cp_async_4(&tile[32 * i + threadIdx.x], &in[threadIdx.x], threadIdx.x % 2 == 1);  // [odd lanes]
  for (int i = 0; i < 2; ++i) cp_async_4(&zeros[32 * i + threadIdx.x], in, false);    // [zeros]
  cp_async_commit();
  cp_async_wait<0>();
  out[threadIdx.x] = tile[32 + threadIdx.x] + zeros[threadIdx.x];
}
void matrices(const uint4* in, uint4* out) {
  __shared__ uint4 rows[32];
  store_vec(&rows[threadIdx.x], load_vec<uint4>(&in[threadIdx.x]));
  __syncthreads();
  uint32_t r[4];
  ldmatrix_x4(r, &rows[threadIdx.x]);  // [ldmatrix]
  store_vec(&out[threadIdx.x], make_uint4(r[0], r[1], r[2], r[3]));
}
void atomics(int* sum) {
  atomicAdd(sum + threadIdx.x % 8, 1);  // [atomic]
}
void bytes_of_two(const uint16_t* in, uint16_t* out) {
  out[threadIdx.x] = in[threadIdx.x];  // [halves]
}

simt::KernelCounts count(const std::function<void(Stream&)>& work) {
  Stream stream;
  simt::take_counts();
  work(stream);
  const auto kernels = simt::take_counts();
  REQUIRE(kernels.size() == 1);
  return kernels[0];
}

}  // namespace counted
using namespace counted;
using simt::Space;

TEST_CASE("counts: this is an instrumented build") { CHECK(simt::counting()); }

TEST_CASE("counts: columns, padding, broadcasts") {
  DeviceBuffer<float> in(std::vector<float>(1024, 1.f)), out(96);
  const auto k = count([&](Stream& s) { launch(rows_and_columns, dim3(3), dim3(32), on(s), in.data(), out.data()); });
  CHECK(k.kernel == "counted::rows_and_columns");
  CHECK(k.launches == 1);
  CHECK(k.blocks == 3);
  CHECK(k.threads == 96);
  CHECK(k.barriers == 3);
  REQUIRE(k.barrier_lines.size() == 1);
  CHECK(k.barrier_lines[0].count == 3);
  const auto column = line_of(k, "column", Space::shared, false);
  CHECK(column.requests == 3);
  CHECK(column.lanes == 96);
  CHECK(column.bytes == 384);
  CHECK(column.wavefronts == 96);
  CHECK(column.least_wavefronts == 3);
  const auto row = line_of(k, "column", Space::global, true);
  CHECK(row.sectors == 12);
  CHECK(row.l1_lines == 3);
  CHECK(line_of(k, "padded", Space::shared, false).wavefronts == 3);
  CHECK(line_of(k, "padded", Space::global, true).sectors == 96);
  CHECK(line_of(k, "padded", Space::global, true).l1_lines == 96);
  CHECK(line_of(k, "broadcast", Space::shared, true).wavefronts == 6);
}
TEST_CASE("counts: one vector access is one request") {
  DeviceBuffer<float> in(std::vector<float>(128, 1.f)), out(64);
  const auto k = count([&](Stream& s) { launch(vectors, dim3(1), dim3(32), on(s).smem(512), in.data(), out.data()); });
  const auto load = line_of(k, "float4", Space::global, true), store = line_of(k, "float4", Space::shared, false);
  CHECK(load.bytes_per_lane == 16);
  CHECK(load.requests == 1);
  CHECK(load.sectors == 16);
  CHECK(store.wavefronts == 4);
  CHECK(store.least_wavefronts == 4);
  CHECK(line_of(k, "float2", Space::shared, true).wavefronts == 2);
  CHECK(line_of(k, "float2", Space::global, false).bytes_per_lane == 8);
}
TEST_CASE("counts: so is the assignment of a vector") {
  DeviceBuffer<float4> in(std::vector<float4>(64, make_float4(1, 2, 3, 4))), out(96);
  DeviceBuffer<float2> pairs(32);
  const auto k =
      count([&](Stream& s) { launch(assigned, dim3(1), dim3(32), on(s), in.data(), out.data(), pairs.data()); });
  for (const char* name : {"assigned store", "streaming store"}) {
    CHECK(line_of(k, name, Space::global, false).requests == 1);
    CHECK(line_of(k, name, Space::global, false).sectors == 16);
  }
  CHECK(line_of(k, "assigned load", Space::global, true).requests == 1);
  CHECK(line_of(k, "pair", Space::global, false).requests == 1);
  CHECK(line_of(k, "pair", Space::global, false).sectors == 8);
}
TEST_CASE("counts: lanes that are elsewhere take no part in a request") {
  DeviceBuffer<float> in(std::vector<float>(64, 1.f)), out(32);
  const auto k = count([&](Stream& s) { launch(divergent, dim3(1), dim3(32), on(s), in.data(), out.data()); });
  const auto turns = line_of(k, "turns", Space::global, true);
  CHECK(turns.requests == 8);
  CHECK(turns.lanes == 128);
  CHECK(line_of(k, "all", Space::global, true).requests == 8);
  CHECK(line_of(k, "all", Space::global, true).lanes == 256);
}
TEST_CASE("counts: two branches are two requests, and the next turn of the loop is one again") {
  DeviceBuffer<float> in(std::vector<float>(64, 1.f)), out(32);
  const auto k = count([&](Stream& s) { launch(two_branches, dim3(1), dim3(32), on(s), in.data(), out.data()); });
  for (const char* branch : {"one branch", "other branch"}) {
    CHECK(line_of(k, branch, Space::global, true).requests == 8);
    CHECK(line_of(k, branch, Space::global, true).lanes == 128);
  }
  CHECK(line_of(k, "head", Space::global, true).requests == 8);
}
TEST_CASE("counts: lanes that skip code which the compiler has moved away stay in step with the others") {
  DeviceBuffer<float> in(std::vector<float>(96, 1.f)), out(32);
  const auto k =
      count([&](Stream& s) { launch(code_out_of_line, dim3(1), dim3(32), on(s), in.data(), out.data(), 20); });
  CHECK(line_of(k, "moved away", Space::global, true).requests == 3);
  CHECK(line_of(k, "by all", Space::shared, false).requests == 3);
}
TEST_CASE("counts: lanes that are outside of an edge in the inner of two loops stay in step with the others") {
  DeviceBuffer<float> out(7 * 33);
  const auto k = count([&](Stream& s) { launch(edge_of_a_tile, dim3(1), dim3(32), on(s), out.data(), 7, 33); });
  const auto edge = line_of(k, "edge", Space::global, false);
  CHECK(edge.requests == 4 * 3);  // columns 0 to 15, 16 to 31, and 32
  CHECK(edge.sectors ==
        5 + 6 * (3 + 3 + 1));  // of rows of 132 bytes: row 0 starts with a sector, the others between two
}
TEST_CASE("counts: lanes that skip a load stay in step, however far ahead the first lane has run") {
  DeviceBuffer<uint4> in(std::vector<uint4>(22 * 8, make_uint4(1, 2, 3, 4)));
  for (const int threads : {32, 64, 128}) {
    const auto k =
        count([&](Stream& s) { launch(rows_of_zeros, dim3(1), dim3(threads), on(s).smem(4096), in.data(), 22); });
    CHECK(line_of(k, "rows that exist", Space::global, true).requests == 8);
    CHECK(line_of(k, "all rows", Space::shared, false).requests == 32);
  }
}
TEST_CASE("counts: lanes that leave a loop earlier than others meet them again behind it") {
  DeviceBuffer<float> in(std::vector<float>(304, 1.f)), out(32);
  const auto k = count(
      [&](Stream& s) { launch(leaves_earlier, dim3(1), dim3(32), on(s).smem(1216), in.data(), out.data(), 304); });
  CHECK(line_of(k, "second loop", Space::shared, true).requests == 10);
  CHECK(line_of(k, "behind both", Space::global, false).requests == 1);
}
TEST_CASE("counts: lanes leave a loop one by one") {
  DeviceBuffer<float> in(std::vector<float>(64, 1.f)), out(32);
  const auto k =
      count([&](Stream& s) { launch(own_number_of_turns, dim3(1), dim3(32), on(s), in.data(), out.data()); });
  CHECK(line_of(k, "own turns", Space::global, true).requests == 32);
  CHECK(line_of(k, "own turns", Space::global, true).lanes == 32 * 33 / 2);
  CHECK(line_of(k, "together again", Space::global, false).requests == 1);
}
TEST_CASE("counts: a loop longer than any window, a warp that is not full") {
  DeviceBuffer<float> in(std::vector<float>(1024, 1.f)), out(40);
  const auto k = count([&](Stream& s) { launch(long_loop, dim3(1), dim3(40), on(s), in.data(), out.data(), 5000); });
  const auto loop = line_of(k, "loop", Space::global, true);
  CHECK(loop.requests == 10000);
  CHECK(loop.lanes == 200000);
  CHECK(loop.sectors == 5000 * 4 + 5000);
}
TEST_CASE("counts: half warps that meet apart still load together") {
  DeviceBuffer<float> in(std::vector<float>(32, 1.f)), out(32);
  const auto k = count([&](Stream& s) { launch(half_warps_shuffle, dim3(1), dim3(32), on(s), in.data(), out.data()); });
  CHECK(line_of(k, "before", Space::global, true).requests == 1);
  CHECK(line_of(k, "after", Space::global, false).requests == 1);
}
TEST_CASE("counts: lanes that copy zeros read nothing, and stay in step with the others") {
  DeviceBuffer<float> in(std::vector<float>(32, 1.f)), out(std::vector<float>(32, 2.f));
  const auto k = count([&](Stream& s) { launch(copies_of_zeros, dim3(1), dim3(32), on(s), in.data(), out.data()); });
  CHECK(line_of(k, "odd lanes", Space::global, true).requests == 2);
  CHECK(line_of(k, "odd lanes", Space::global, true).sectors == 8);
  CHECK(line_of(k, "odd lanes", Space::shared, false).requests == 2);
  CHECK(line_of(k, "odd lanes", Space::shared, false).wavefronts == 2);
  CHECK(line_of(k, "odd lanes", Space::shared, false).async);
  CHECK(line_of(k, "zeros", Space::shared, false).requests == 2);
  for (const simt::LineCounts& line : k.lines)
    CHECK(line.async == (line.space == Space::shared && !line.load && line.requests == 2));
}
TEST_CASE("counts: asynchronous copies, matrix loads, atomics, two bytes a lane") {
  DeviceBuffer<float4> in(std::vector<float4>(32)), out(32);
  DeviceBuffer<int> sums(std::vector<int>(8, 0));
  auto k = count(
      [&](Stream& s) { launch(copies, dim3(1), dim3(32), on(s), in.data(), reinterpret_cast<float*>(out.data())); });
  CHECK(line_of(k, "copy", Space::global, true).lanes == 24);
  CHECK(line_of(k, "copy", Space::global, true).sectors == 12);
  CHECK(line_of(k, "copy", Space::shared, false).lanes == 32);
  CHECK(line_of(k, "copy", Space::shared, false).wavefronts == 4);
  auto* words = reinterpret_cast<uint4*>(in.data());
  k = count(
      [&](Stream& s) { launch(matrices, dim3(1), dim3(32), on(s), words, reinterpret_cast<uint4*>(out.data())); });
  CHECK(line_of(k, "ldmatrix", Space::shared, true).requests == 1);
  CHECK(line_of(k, "ldmatrix", Space::shared, true).wavefronts == 4);
  k = count([&](Stream& s) { launch(atomics, dim3(1), dim3(32), on(s), sums.data()); });
  CHECK(line_of(k, "atomic", Space::global, false).requests == 1);
  CHECK(line_of(k, "atomic", Space::global, false).lanes == 32);
  CHECK(sums.to_host()[3] == 4);
  auto* halves = reinterpret_cast<uint16_t*>(in.data());
  k = count([&](Stream& s) { launch(bytes_of_two, dim3(1), dim3(32), on(s), halves, halves + 64); });
  CHECK(line_of(k, "halves", Space::global, true).sectors == 2);
  CHECK(line_of(k, "halves", Space::global, false).bytes == 64);
}
TEST_CASE("counts: what was taken is gone, kernels come in order of their first launch") {
  DeviceBuffer<float> in(std::vector<float>(1024, 1.f)), out(64);
  Stream s;
  simt::take_counts();
  for (int i = 0; i < 2; ++i) {
    launch(long_loop, dim3(1), dim3(32), on(s), in.data(), out.data(), 3);
    launch(rows_and_columns, dim3(1), dim3(32), on(s), in.data(), out.data());
  }
  const auto kernels = simt::take_counts();
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].kernel == "counted::long_loop");
  CHECK(kernels[0].launches == 2);
  CHECK(line_of(kernels[0], "loop", Space::global, true).requests == 6);
  CHECK(std::is_sorted(kernels[1].lines.begin(), kernels[1].lines.end(),
                       [](const auto& a, const auto& b) { return a.line < b.line; }));
  CHECK(simt::take_counts().empty());
}
TEST_CASE("counts: a warp is one request behind a barrier too, whichever of its threads came last") {
  DeviceBuffer<float> in(std::vector<float>(32 * 128, 1.f)), out(128);
  const auto k = count([&](Stream& s) { launch(two_tiles, dim3(1), dim3(128), on(s), in.data(), out.data()); });
  CHECK(line_of(k, "first tile", Space::shared, true).requests == 4);
  CHECK(line_of(k, "second tile", Space::shared, true).requests == 4);
  CHECK(line_of(k, "second tile", Space::shared, true).lanes == 128);
}
