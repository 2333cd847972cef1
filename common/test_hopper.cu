// Hopper's instructions on both machines: where a swizzled box lies, what is outside of a tensor, mbarrier phases, and
// wgmma against double for every form of its operands. On the executor they prove its twins; on a GPU, that these say
// what the hardware does. What only the executor can refuse is in common/simt/test_hopper.cpp.
#include "common/catch.hpp"
#include "common/launch.hpp"
#include "common/verify.hpp"
#include "common/wgmma_sm90.hpp"

namespace hopper_tests {

// Loads one box and shows shared memory as it lies.
__global__ void show_box(const __grid_constant__ TensorMap map, int2 at, int bytes, bfloat16* raw) {
  if constexpr (kHopperCode) {
    bfloat16* tile = dynamic_shared_1024<bfloat16>();
    auto* barrier = reinterpret_cast<Mbarrier*>(tile + bytes / 2);
    if (threadIdx.x == 0) {
      mbarrier_init(barrier, 1);
      mbarrier_init_fence();
      mbarrier_expect_bytes(barrier, bytes);
      tma_load(tile, map, barrier, at);
    }
    __syncthreads();
    mbarrier_wait(barrier, 0);
    for (int i = threadIdx.x; i < bytes / 2; i += blockDim.x) raw[i] = tile[i];
  }
}

// Copies a box of `from` to a place of `to` by way of shared memory.
__global__ void move_box(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to, int4 read,
                         int2 write, int bytes) {
  if constexpr (kHopperCode) {
    char* tile = dynamic_shared_1024<char>();
    auto* barrier = reinterpret_cast<Mbarrier*>(tile + bytes);
    if (threadIdx.x != 0) return;
    mbarrier_init(barrier, 1);
    mbarrier_init_fence();
    mbarrier_expect_bytes(barrier, bytes);
    tma_load(tile, from, barrier, read);
    mbarrier_wait(barrier, 0);
    tma_store(to, write, tile);
    tma_store_commit();
    tma_store_wait_read<0>();
  }
}

// d[64, N] = a[64, K] · b, b [N, K] or, where transposed_b, [K, N]; K a multiple of 64. One warpgroup.
template <int N, bool transposed_b, bool a_in_registers>
__global__ void __launch_bounds__(128)
    wgmma_product(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* out, int K) {
  if constexpr (kHopperCode) {
    constexpr int A_BYTES = 64 * 128, B_BYTES = N * 128;
    char* a = dynamic_shared_1024<char>();
    char* b = a + A_BYTES;
    auto* barrier = reinterpret_cast<Mbarrier*>(b + B_BYTES);
    if (threadIdx.x == 0) {
      mbarrier_init(barrier, 1);
      mbarrier_init_fence();
    }
    __syncthreads();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float d[N / 2];
    for (int t = 0; t < K / 64; ++t) {
      if (threadIdx.x == 0) {
        mbarrier_expect_bytes(barrier, A_BYTES + B_BYTES);
        tma_load(a, a_map, barrier, make_int2(64 * t, 0));
        if (transposed_b) {
          for (int n = 0; n < N; n += 64) tma_load(b + n * 128, b_map, barrier, make_int2(n, 64 * t));
        } else {
          tma_load(b, b_map, barrier, make_int2(64 * t, 0));
        }
      }
      mbarrier_wait(barrier, t % 2);
      uint32_t fragment[4][4];
      if (a_in_registers)
        for (int step = 0; step < 4; ++step)
          for (int i = 0; i < 4; ++i) {
            const int row = 16 * warp + lane / 4 + i % 2 * 8, byte = 32 * step + i / 2 * 16 + lane % 4 * 4;
            fragment[step][i] = load_vec<uint32_t>(a + row * 128 + (byte ^ row % 8 * 16));
          }
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const uint64_t right = transposed_b ? wgmma_advance(wgmma_descriptor(b, 1024, 64 * 128), 2048 * step)
                                            : wgmma_advance(wgmma_descriptor(b), 32 * step);
        if constexpr (a_in_registers)
          wgmma<transposed_b>(d, fragment[step], right, t + step > 0);
        else
          wgmma<transposed_b>(d, wgmma_advance(wgmma_descriptor(a), 32 * step), right, t + step > 0);
      }
      wgmma_commit();
      wgmma_wait<0>(d);
      __syncthreads();
    }
    for (int i = 0; i < N / 2; ++i)
      out[(16 * warp + lane / 4 + i / 2 % 2 * 8) * N + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
  }
}

// A ring of two tiles: one thread fills, four warps add up what they read and give the place back.
__global__ void ring(const __grid_constant__ TensorMap map, float* sums, int tiles) {
  if constexpr (kHopperCode) {
    bfloat16* slots = dynamic_shared_1024<bfloat16>();  // [2][8][64]
    auto* full = reinterpret_cast<Mbarrier*>(slots + 2 * 512);
    Mbarrier* empty = full + 2;
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; ++i) mbarrier_init(full + i, 1), mbarrier_init(empty + i, 4);
      mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x >= 128) {
      if (threadIdx.x > 128) return;
      for (int t = 0; t < tiles; ++t) {
        mbarrier_wait(empty + t % 2, (t / 2 + 1) % 2);
        mbarrier_expect_bytes(full + t % 2, 1024);
        tma_load(slots + t % 2 * 512, map, full + t % 2, make_int2(0, 8 * t));
      }
    } else {
      for (int t = 0; t < tiles; ++t) {
        mbarrier_wait(full + t % 2, t / 2 % 2);
        float sum = 0;
        for (int i = 0; i < 4; ++i) sum += __bfloat162float(slots[t % 2 * 512 + 4 * threadIdx.x + i]);
        sums[128 * t + threadIdx.x] = sum;
        __syncwarp();
        if (threadIdx.x % 32 == 0) mbarrier_arrive(empty + t % 2);
      }
    }
  }
}

// Two warps hand a word to and fro: 1 waits where 0 only tells that it has come.
__global__ void hand_over(int* out) {
  if constexpr (kHopperCode) {
    int* word = dynamic_shared_1024<int>();
    for (int round = 0; round < 3; ++round) {
      if (threadIdx.x < 32) {
        word[threadIdx.x] = 100 * round + threadIdx.x;
        named_barrier_arrive(1, 64);
        named_barrier_sync(2, 64);
      } else {
        named_barrier_sync(1, 64);
        out[32 * round + threadIdx.x - 32] = word[63 - threadIdx.x];
        named_barrier_sync(2, 64);
      }
    }
  }
}

std::vector<bfloat16> numbered(size_t count) {
  std::vector<bfloat16> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = __float2bfloat16(float(i % 251) + 1);  // exact, and never 0
  return values;
}
bool absent() {
  if (!device().has_wgmma) SUCCEED("needs compute capability 9.0 and code for sm_90a");
  return !device().has_wgmma;
}

template <int N, bool transposed_b, bool a_in_registers>
void check_product(int K) {
  INFO("N=" << N << " transposed_b=" << transposed_b << " a_in_registers=" << a_in_registers << " K=" << K);
  std::vector<bfloat16> a(64 * K), b(N * K);
  for (size_t i = 0; i < a.size(); ++i) a[i] = __float2bfloat16(float(int(i * 7919 % 31) - 15));
  for (size_t i = 0; i < b.size(); ++i) b[i] = __float2bfloat16(float(int(i * 104729 % 29) - 14));
  DeviceBuffer<bfloat16> A(a), B(b);
  DeviceBuffer<float> D(64 * N);
  const uint64_t k = K, n = N;
  const TensorMap a_map = make_tensor_map(A.data(), {{k, 64}, {k}, {64, 64}});
  const TensorMap b_map = transposed_b ? make_tensor_map(B.data(), {{n, k}, {n}, {64, 64}})
                                       : make_tensor_map(B.data(), {{k, n}, {k}, {64, N}});
  Stream stream;
  launch(wgmma_product<N, transposed_b, a_in_registers>, dim3(1), dim3(128),
         on(stream).smem(64 * 128 + N * 128 + sizeof(Mbarrier)), a_map, b_map, D.data(), K);
  stream.synchronize();
  const auto got = D.to_host();
  int wrong = 0;
  for (int row = 0; row < 64; ++row)
    for (int col = 0; col < N; ++col) {
      double want = 0;  // integers: exact in float as well
      for (int i = 0; i < K; ++i)
        want += to_double(a[row * K + i]) * to_double(b[transposed_b ? i * N + col : col * K + i]);
      wrong += !(got[row * N + col] == want);
    }
  CHECK(wrong == 0);
}

}  // namespace hopper_tests

using namespace hopper_tests;

TEST_CASE("tma_load: 16-byte chunk c of row r lies at place c ^ (r mod 8), and outside is zero") {
  if (absent()) return;
  const int rows = 11, columns = 72, box_rows = 16;
  const auto values = numbered(rows * columns);
  DeviceBuffer<bfloat16> from(values), raw(box_rows * 64);
  Stream stream;
  for (const TensorSwizzle swizzle : {TensorSwizzle::k128Bytes, TensorSwizzle::kNone})
    for (const int2& at : {make_int2(0, 0), make_int2(64, 3), make_int2(-8, -2), make_int2(16, 9), make_int2(200, 0)}) {
      INFO("at " << at.x << ", " << at.y);
      const TensorMap map = make_tensor_map(from.data(), {{columns, rows}, {columns}, {64, box_rows}}, swizzle);
      raw.poison();
      launch(show_box, dim3(1), dim3(64), on(stream).smem(raw.bytes() + sizeof(Mbarrier)), map, at, int(raw.bytes()),
             raw.data());
      stream.synchronize();
      const auto got = raw.to_host();
      int wrong = 0;
      for (int r = 0; r < box_rows; ++r)
        for (int c = 0; c < 64; ++c) {
          const int row = at.y + r, col = at.x + c;
          const bool inside = row >= 0 && row < rows && col >= 0 && col < columns;
          const int place = swizzle == TensorSwizzle::kNone ? c : (c / 8 ^ r % 8) * 8 + c % 8;
          wrong += !(__bfloat162float(got[r * 64 + place]) ==
                     (inside ? __bfloat162float(values[row * columns + col]) : 0.f));
        }
      CHECK(wrong == 0);
    }
}
TEST_CASE("tma_load of rank 4 and tma_store: a box goes where it fits, and nothing else is written") {
  if (absent()) return;
  // 8 rows of the first half of a matrix, the 8 rows of its second half that belong to them, and so on
  const int half = 24, columns = 64, out_rows = 29, out_columns = 40;
  const auto values = numbered(2 * half * columns);
  DeviceBuffer<bfloat16> from(values), to(out_rows * out_columns);
  const TensorMap read =
      make_tensor_map(from.data(), {{columns, 8, 2, half / 8}, {columns, half * columns, 8 * columns}, {64, 8, 2, 2}});
  const TensorMap write = make_tensor_map(to.data(), {{out_columns, out_rows}, {out_columns}, {64, 32}});
  Stream stream;
  launch(move_box, dim3(1), dim3(32), on(stream).smem(32 * 128 + sizeof(Mbarrier)), read, write, make_int4(0, 0, 0, 1),
         make_int2(8, 5), 32 * 128);
  stream.synchronize();
  const auto got = to.to_host();
  int wrong = 0;
  for (int row = 0; row < out_rows; ++row)
    for (int col = 0; col < out_columns; ++col) {
      const float is = __bfloat162float(got[row * out_columns + col]);
      const int r = row - 5, c = col - 8;
      if (r < 0 || c < 0) {
        wrong += !std::isnan(is);
        continue;
      }
      const int source = r / 8 % 2 * half + 8 + r / 16 * 8 + r % 8;
      wrong += !(is == __bfloat162float(values[source * columns + c]));
    }
  CHECK(wrong == 0);
}
TEST_CASE("wgmma: both operands in shared memory, K contiguous") {
  if (absent()) return;
  check_product<64, false, false>(64);
  check_product<128, false, false>(128);
  check_product<256, false, false>(192);
}
TEST_CASE("wgmma: b with N contiguous") {
  if (absent()) return;
  check_product<64, true, false>(64);
  check_product<128, true, false>(192);
  check_product<256, true, false>(64);
}
TEST_CASE("wgmma: a in registers") {
  if (absent()) return;
  check_product<64, false, true>(128);
  check_product<128, true, true>(128);
  check_product<256, true, true>(64);
}
TEST_CASE("mbarrier: phases of a ring that is used more often than it has places") {
  if (absent()) return;
  const int tiles = 7;
  const auto values = numbered(tiles * 512);
  DeviceBuffer<bfloat16> from(values);
  DeviceBuffer<float> sums(tiles * 128);
  const TensorMap map = make_tensor_map(from.data(), {{64, 8 * tiles}, {64}, {64, 8}}, TensorSwizzle::kNone);
  Stream stream;
  launch(ring, dim3(1), dim3(160), on(stream).smem(2 * 1024 + 4 * sizeof(Mbarrier)), map, sums.data(), tiles);
  stream.synchronize();
  const auto got = sums.to_host();
  int wrong = 0;
  for (int i = 0; i < tiles * 128; ++i) {
    float want = 0;
    for (int j = 0; j < 4; ++j) want += __bfloat162float(values[4 * i + j]);
    wrong += !(got[i] == want);
  }
  CHECK(wrong == 0);
}
TEST_CASE("named barriers: of two warps, one of which only arrives") {
  if (absent()) return;
  DeviceBuffer<int> out(96);
  Stream stream;
  launch(hand_over, dim3(1), dim3(64), on(stream).smem(128), out.data());
  stream.synchronize();
  const auto got = out.to_host();
  for (int i = 0; i < 96; ++i) CHECK(got[i] == 100 * (i / 32) + 31 - i % 32);
}
TEST_CASE("make_tensor_map refuses what the copy engine cannot do") {
  DeviceBuffer<bfloat16> data(1024);
  const auto refused = [&](const bfloat16* base, const TensorShape& shape, TensorSwizzle swizzle) {
    CHECK_THROWS_AS(make_tensor_map(base, shape, swizzle), BadInput);
  };
  const auto swizzled = TensorSwizzle::k128Bytes, plain = TensorSwizzle::kNone;
  refused(data.data() + 1, {{64, 8}, {64}, {64, 8}}, swizzled);  // base
  refused(data.data(), {{64, 8}, {65}, {64, 8}}, swizzled);      // stride
  refused(data.data(), {{64, 8}, {64}, {128, 8}}, swizzled);     // rows of 256 bytes
  refused(data.data(), {{64, 8}, {64}, {64, 257}}, swizzled);    // box
  refused(data.data(), {{64, 8}, {64}, {12, 8}}, plain);         // rows of 24 bytes
  refused(data.data(), {{64, 0}, {64}, {64, 8}}, plain);         // nothing there
  refused(data.data(), {{64}, {}, {64}}, plain);                 // rank
}
