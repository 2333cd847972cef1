// What the executor refuses or shows of Hopper's asynchronous instructions: a wait or a fence that is missing, a wrong
// count, an absent thread, a deadlock.
#include "common/catch.hpp"
#include "common/launch.hpp"
#include "common/wgmma_sm90.hpp"

namespace hopper_faults {  // a named one: messages show a kernel by its symbol

enum class Fault {
  kNone,
  kNoWaitForTile,
  kNoWaitForWgmma,
  kNeverWaited,
  kNoFence,
  kNoSecondFence,
  kNoInitFence,
  kWrongBytes,
  kTooManyArrivals,
  kThreadMissing,
  kThreadReturned,
  kWrongSwizzle,
  kStoreNotWaited,
  kStoreOverwritten,
  kUninitialised,
  kOddPlace,
};

// 1 · 64 ones in every place of d [64, 64], and stored as bfloat16 as well, unless a fault spoils it.
__global__ void product(Fault fault, TensorMap in, TensorMap out, float* d_out) {
  char* tile = dynamic_shared_1024<char>();  // [64][64], a and b at once
  auto* barrier = reinterpret_cast<Mbarrier*>(tile + 8192);
  if (threadIdx.x == 0) {
    if (fault != Fault::kUninitialised) mbarrier_init(barrier, 1);
    if (fault != Fault::kNoInitFence) mbarrier_init_fence();
    mbarrier_expect_bytes(barrier, fault == Fault::kWrongBytes ? 8000 : 8192);
    tma_load(tile, in, barrier, make_int2(fault == Fault::kOddPlace ? 4 : 0, 0));
    if (fault == Fault::kTooManyArrivals) mbarrier_arrive(barrier);
  }
  __syncthreads();
  if (fault != Fault::kNoWaitForTile) mbarrier_wait(barrier, 0);
  if (fault == Fault::kThreadReturned && threadIdx.x == 77) return;
  float d[32];
  for (float& value : d) value = 1;
  if (fault != Fault::kNoFence) wgmma_fence();
  for (int step = 0; step < 4; ++step) {
    if (fault == Fault::kThreadMissing && threadIdx.x == 99) __syncwarp();
    uint64_t descriptor = wgmma_advance(wgmma_descriptor(tile), 32 * step);
    if (fault == Fault::kWrongSwizzle) descriptor ^= uint64_t(3) << 62;
    wgmma(d, descriptor, descriptor, step > 0);
  }
  wgmma_commit();
  if (fault == Fault::kNoWaitForWgmma) {
    for (int i = 0; i < 32; ++i) d_out[32 * threadIdx.x + i] = d[i];
    wgmma_wait<0>();
    return;
  }
  if (fault == Fault::kNeverWaited) return;
  wgmma_wait<0>(d);
  if (fault == Fault::kNoSecondFence) wgmma(d, wgmma_descriptor(tile), wgmma_descriptor(tile), true);
  for (int i = 0; i < 32; ++i) d_out[32 * threadIdx.x + i] = d[i];
  if (fault == Fault::kNoWaitForTile) mbarrier_wait(barrier, 0);
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store(out, make_int2(0, 0), tile);
    tma_store_commit();
    if (fault == Fault::kStoreOverwritten) std::memset(tile, 0, 8192);
    if (fault != Fault::kStoreNotWaited) tma_store_wait_read<0>();
  }
}
// One place for a tile and two uses of it: a warpgroup multiplies what thread 128 has copied, and says when it may be
// filled again.
void reuse(bool too_early, const TensorMap ones) {
  auto* const tile = dynamic_shared_1024<bfloat16>();
  auto* const full = reinterpret_cast<Mbarrier*>(tile + 4096);
  Mbarrier* const empty = full + 1;
  if (threadIdx.x == 0) {
    mbarrier_init(full, 1);
    mbarrier_init(empty, 4);
    mbarrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x > 128) return;
  for (int use = 0; use < 2; ++use) {
    if (threadIdx.x == 128) {
      mbarrier_wait(empty, unsigned(use + 1) % 2);
      mbarrier_expect_bytes(full, 8192);
      tma_load(tile, ones, full, make_int2(0, 0));
      continue;
    }
    float d[32];
    mbarrier_wait(full, unsigned(use));
    wgmma_fence();
    wgmma(d, wgmma_descriptor(tile), wgmma_descriptor(tile), false);
    wgmma_commit();
    if (too_early && threadIdx.x % 32 == 0) mbarrier_arrive(empty);
    wgmma_wait<0>(d);
    if (!too_early && threadIdx.x % 32 == 0) mbarrier_arrive(empty);
  }
}
void half_a_warpgroup() { wgmma_fence(); }
void named(int id, int threads) { named_barrier_sync(id, threads); }

struct Outcome {
  std::string refusal;  // empty if the kernel ran
  std::vector<float> d;
  std::vector<bfloat16> stored;
  bool right() const {
    if (!refusal.empty()) return false;
    for (const float value : d)
      if (!(value == 64)) return false;
    for (const bfloat16 value : stored)
      if (!(__bfloat162float(value) == 1)) return false;
    return true;
  }
};
Outcome run(Fault fault) {
  DeviceBuffer<bfloat16> ones(std::vector<bfloat16>(4096, __float2bfloat16(1))), stored(4096);
  DeviceBuffer<float> d(4096);
  const TensorShape shape{{64, 64}, {64}, {64, 64}};
  Stream stream;
  Outcome outcome;
  try {
    launch(product, dim3(1), dim3(128), on(stream).smem(8192 + sizeof(Mbarrier)), fault,
           make_tensor_map(ones.data(), shape), make_tensor_map(stored.data(), shape), d.data());
  } catch (const simt::KernelError& error) {
    outcome.refusal = error.what();
  }
  outcome.d = d.to_host();
  outcome.stored = stored.to_host();
  return outcome;
}
// Both ways a copy may happen, and back to the way that was set.
template <class Body>
void late_and_early(Body body) {
  const bool before = simt::copies_are_early();
  for (const bool early : {false, true}) {
    simt::set_early_copies(early);
    INFO("early " << early);
    body(early);
  }
  simt::set_early_copies(before);
}
bool refused(Fault fault, const std::string& part) {
  const Outcome outcome = run(fault);
  INFO(outcome.refusal);
  CHECK(outcome.refusal.find("hopper_faults::product block (0,0,0)") != std::string::npos);
  CHECK(outcome.refusal.find(part) != std::string::npos);
  return !outcome.refusal.empty();
}

}  // namespace hopper_faults

using namespace hopper_faults;

TEST_CASE("Hopper twins: the kernel without a fault") {
  late_and_early([](bool) { CHECK(run(Fault::kNone).right()); });
}
TEST_CASE("Hopper twins: a missing wait shows where copies are late") {
  simt::set_early_copies(false);
  CHECK_FALSE(run(Fault::kNoWaitForTile).right());
  const Outcome unwaited = run(Fault::kNoWaitForWgmma);
  CHECK(unwaited.refusal.empty());
  for (const float value : unwaited.d) REQUIRE(std::isnan(value));
  CHECK(refused(Fault::kNeverWaited, "wgmma_wait is missing"));
  CHECK(refused(Fault::kStoreNotWaited, "reads shared memory"));
  CHECK_FALSE(run(Fault::kStoreOverwritten).right());
}
TEST_CASE("Hopper twins: missing fences") {
  late_and_early([](bool early) {
    CHECK(refused(Fault::kNoInitFence, "mbarrier_init_fence"));
    CHECK(refused(Fault::kNoFence, "no wgmma_fence"));
    if (!early) CHECK(refused(Fault::kNoSecondFence, "no wgmma_fence"));
  });
}
TEST_CASE("Hopper twins: a box that does not begin at 16 bytes of a row") {
  late_and_early([](bool) { CHECK(refused(Fault::kOddPlace, "at 8 bytes of a row (first coordinate 4)")); });
}
TEST_CASE("Hopper twins: wrong counts end in an error, not in a hang") {
  late_and_early([](bool early) {
    CHECK(refused(Fault::kWrongBytes, "deadlock"));
    CHECK(refused(Fault::kWrongBytes, "of the mbarrier at byte 8192"));
    // where the copy has ended the first phase already, the arrival too many ends the second: parity 0 again
    CHECK(refused(Fault::kTooManyArrivals, early ? "deadlock" : "has had its 1 arrivals"));
    CHECK(refused(Fault::kUninitialised, "has not been initialised"));
  });
}
TEST_CASE("Hopper twins: all 128 threads of a warpgroup take part in a wgmma") {
  late_and_early([](bool) {
    CHECK(refused(Fault::kThreadReturned, "this one has returned"));
    CHECK(refused(Fault::kThreadMissing, "thread (99,0,0) is not"));
  });
  Stream stream;
  CHECK_THROWS_AS(launch(half_a_warpgroup, dim3(1), dim3(96), on(stream)), simt::KernelError);
}
TEST_CASE("Hopper twins: a tile that is filled again while a wgmma reads it") {
  const DeviceBuffer<bfloat16> ones(std::vector<bfloat16>(4096, __float2bfloat16(1)));
  const TensorMap map = make_tensor_map(ones.data(), {{64, 64}, {64}, {64, 64}});
  Stream stream;
  const auto how = on(stream).smem(8192 + 2 * sizeof(Mbarrier));
  late_and_early([&](bool) {
    launch(reuse, dim3(1), dim3(160), how, false, map);
    CHECK_THROWS_AS(launch(reuse, dim3(1), dim3(160), how, true, map), simt::KernelError);
  });
}
TEST_CASE("Hopper twins: a descriptor of another swizzle, barriers that are none") {
  CHECK(refused(Fault::kWrongSwizzle, "swizzle mode"));
  Stream stream;
  CHECK_THROWS_AS(launch(named, dim3(1), dim3(64), on(stream), 0, 64), simt::KernelError);
  CHECK_THROWS_AS(launch(named, dim3(1), dim3(64), on(stream), 1, 96), simt::KernelError);
  CHECK_THROWS_AS(launch(named, dim3(1), dim3(32), on(stream), 1, 33), simt::KernelError);
}
