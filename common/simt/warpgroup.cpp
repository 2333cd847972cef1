#include "common/simt/warpgroup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/simt/block_runner.hpp"
#include "common/simt/tensor_map.hpp"

namespace simt {
namespace {

constexpr int kRows = 64, kDepth = 16;

int accumulator_row(int lane, int i) { return lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8; }
int accumulator_column(int lane, int i) { return i / 4 * 8 + lane % 4 * 2 + i % 2; }

// An operand in shared memory, through its matrix descriptor: 128-byte swizzle alone.
class SharedMatrix {
 public:
  SharedMatrix(const char* shared, uint64_t descriptor, bool mn_major)
      : shared_(shared),
        start_(static_cast<uint32_t>(descriptor & 0x3fff) << 4),
        leading_(static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4),
        stride_(static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4),
        mn_major_(mn_major) {}

  // The 1024-byte groups of rows that `mn` rows of a or columns of b lie in, and what lies between them.
  uint32_t first() const { return start_ / 1024 * 1024; }
  uint32_t end(uint32_t mn) const {
    return first() + 1024 + (mn_major_ ? (mn / 64 - 1) * leading_ + stride_ : (mn / 8 - 1) * stride_);
  }

  // Element (mn, k): mn is a row of a or a column of b.
  float at(uint32_t mn, uint32_t k) const {
    const uint32_t address =
        mn_major_ ? start_ + mn / 64 * leading_ + k / 8 * stride_ + k % 8 * 128 + mn % 64 * 2  // 64 of mn a row
                  : start_ + mn / 8 * stride_ + mn % 8 * 128 + k * 2;                          // 64 of k a row
    const uint32_t place = swizzle_128(address);
    if (place + 2 > kMaxSharedBytes) return std::numeric_limits<float>::quiet_NaN();
    uint16_t bits;
    std::memcpy(&bits, shared_ + place, 2);
    return bits_float(uint32_t(bits) << 16);
  }

 private:
  const char* shared_;
  uint32_t start_, leading_, stride_;
  bool mn_major_;
};

// Why a descriptor is none that this executor takes; or null.
const char* wrong_descriptor(uint64_t descriptor) {
  if (descriptor >> 62 != 1) return "wgmma: the descriptor's swizzle mode is not that of 128 bytes";
  if (descriptor >> 49 & 7) return "wgmma: the descriptor has a base offset: tiles start at a multiple of 1024 bytes";
  if (descriptor & 0x0003c000c000c000ull) return "wgmma: the descriptor has bits set where it has none";
  return nullptr;
}

}  // namespace

void Warpgroup::mma(const WgmmaOperands& operands, Site site) {
  const int self = runner_.current();
  if (arrived_ > 0 && !(site == site_))
    runner_.fail(fmt::format("divergent wgmma: others of the warpgroup are at {}:{}", site_.file, site_.line), site,
                 self);
  for (int i = 0; arrived_ == 0 && i < kThreads; ++i)
    if (runner_.finished(first_ + i))
      runner_.fail(
          fmt::format("wgmma is for all 128 threads of a warpgroup, but {} has returned", runner_.name(first_ + i)),
          site, self);
  site_ = site;
  ThreadState& mine = threads_[static_cast<size_t>(self - first_)];
  mine.here = true;
  mine.operands = operands;
  if (++arrived_ < kThreads) {
    runner_.sleep();
    return;
  }
  arrived_ = 0;
  start(site);
  // This thread waits for its turn too: its warp's first lanes are to go on before the last.
  for (int i = kThreads - 1; i >= 0; --i) {
    threads_[static_cast<size_t>(i)].here = false;
    runner_.wake(first_ + i);
  }
  runner_.sleep();
}

void Warpgroup::start(Site site) {
  const WgmmaOperands& common = threads_[0].operands;
  Operation operation{issued_++, nullptr, common, {}};
  for (int lane = 0; lane < kThreads; ++lane) {
    const WgmmaOperands& o = threads_[static_cast<size_t>(lane)].operands;
    if (o.b_descriptor != common.b_descriptor || o.add != common.add || o.N != common.N ||
        (o.a == nullptr) != (common.a == nullptr) || (!o.a && o.a_descriptor != common.a_descriptor))
      runner_.fail("wgmma: the threads of the warpgroup bring different descriptors", site, first_ + lane);
    if (!o.a) continue;
    if (!threads_[static_cast<size_t>(lane)].fenced)
      runner_.fail("wgmma: a in registers without a wgmma_fence behind the last wait", site, first_ + lane);
    operation.a.resize(kRows * kDepth);
    for (int i = 0; i < 8; ++i)  // pairs 0 and 1 are the left 8 columns, 2 and 3 the right
      operation.a[static_cast<size_t>(accumulator_row(lane, i) * kDepth + accumulator_column(lane, i))] =
          bits_float(i % 2 == 0 ? o.a[i / 2] << 16 : o.a[i / 2] & 0xffff0000u);
  }
  const char* wrong = wrong_descriptor(common.b_descriptor);
  if (!wrong && !common.a) wrong = wrong_descriptor(common.a_descriptor);
  if (wrong) runner_.fail(wrong, site, first_);
  const SharedMatrix b(nullptr, common.b_descriptor, common.transposed_b);
  readings_.push_back({operation.number, b.first(), b.end(uint32_t(common.N)), 0, site});
  if (!common.a) {
    const SharedMatrix a(nullptr, common.a_descriptor, false);
    readings_.push_back({operation.number, a.first(), a.end(kRows), 0, site});
  }
  operation.accumulator = accumulator(site);
  operation.accumulator->last = operation.number;
  operations_.push_back(std::move(operation));
  if (!copies_are_early()) return;
  carry_out(operations_.front());
  for (int lane = 0; lane < kThreads; ++lane) deliver(*operations_.front().accumulator, lane);
  operations_.clear();
  accumulators_.clear();
}

// The accumulator of the operation that starts: the one that is under way in these registers, or else a new one.
std::shared_ptr<Warpgroup::Accumulator> Warpgroup::accumulator(Site site) {
  const WgmmaOperands& common = threads_[0].operands;
  for (const auto& known : accumulators_)
    if (known->d[0] == common.d && known->N == common.N && !known->delivered[0]) return known;
  auto fresh = std::make_shared<Accumulator>();
  fresh->N = common.N;
  fresh->site = site;
  fresh->value.resize(static_cast<size_t>(kRows * common.N));
  fresh->delivered.resize(kThreads);
  for (int lane = 0; lane < kThreads; ++lane) {
    if (!threads_[static_cast<size_t>(lane)].fenced)
      runner_.fail("wgmma: its registers may have been used since the last wait, and no wgmma_fence lies between", site,
                   first_ + lane);
    float* d = threads_[static_cast<size_t>(lane)].operands.d;
    fresh->d.push_back(d);
    for (int i = 0; i < common.N / 2; ++i) {
      fresh->value[static_cast<size_t>(accumulator_row(lane, i) * common.N + accumulator_column(lane, i))] = d[i];
      d[i] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  accumulators_.push_back(fresh);
  return fresh;
}

void Warpgroup::carry_out(const Operation& operation) {
  const WgmmaOperands& o = operation.operands;
  const SharedMatrix a(runner_.shared_memory(), o.a_descriptor, false);
  const SharedMatrix b(runner_.shared_memory(), o.b_descriptor, o.transposed_b);
  float columns[kDepth][256], sum[256];
  for (int k = 0; k < kDepth; ++k)
    for (int n = 0; n < o.N; ++n) columns[k][n] = b.at(unsigned(n), unsigned(k));
  for (int m = 0; m < kRows; ++m) {
    std::fill(sum, sum + o.N, 0.f);
    for (int k = 0; k < kDepth; ++k) {
      const float factor = o.a ? operation.a[static_cast<size_t>(m * kDepth + k)] : a.at(unsigned(m), unsigned(k));
      for (int n = 0; n < o.N; ++n) sum[n] += factor * columns[k][n];
    }
    float* value = operation.accumulator->value.data() + m * o.N;
    for (int n = 0; n < o.N; ++n) value[n] = o.add ? value[n] + sum[n] : sum[n];
  }
}

void Warpgroup::deliver(Accumulator& accumulator, int lane) {
  accumulator.delivered[static_cast<size_t>(lane)] = true;
  for (int i = 0; i < accumulator.N / 2; ++i)
    accumulator.d[static_cast<size_t>(lane)][i] =
        accumulator.value[static_cast<size_t>(accumulator_row(lane, i) * accumulator.N + accumulator_column(lane, i))];
}

void Warpgroup::fence() { threads_[static_cast<size_t>(runner_.current() - first_)].fenced = true; }

void Warpgroup::commit() { threads_[static_cast<size_t>(runner_.current() - first_)].group_ends.push_back(issued_); }

void Warpgroup::wait(int groups_left) {
  const int lane = runner_.current() - first_;
  ThreadState& thread = threads_[static_cast<size_t>(lane)];
  const int groups = static_cast<int>(thread.group_ends.size()) - groups_left;
  if (groups <= 0) return;
  const uint64_t end = thread.group_ends[static_cast<size_t>(groups - 1)];
  thread.group_ends.erase(thread.group_ends.begin(), thread.group_ends.begin() + groups);
  for (Reading& reading : readings_)
    if (reading.number < end) reading.waited |= 1u << lane / 32;
  while (!readings_.empty() && readings_.front().waited == 15) readings_.pop_front();
  for (; !operations_.empty() && operations_.front().number < end; operations_.pop_front())
    carry_out(operations_.front());
  for (const auto& accumulator : accumulators_) {
    if (accumulator->last >= end || accumulator->delivered[static_cast<size_t>(lane)]) continue;
    deliver(*accumulator, lane);
    thread.fenced = false;
  }
  const auto everywhere = [](const std::shared_ptr<Accumulator>& accumulator) {
    return std::all_of(accumulator->delivered.begin(), accumulator->delivered.end(), [](bool done) { return done; });
  };
  accumulators_.erase(std::remove_if(accumulators_.begin(), accumulators_.end(), everywhere), accumulators_.end());
}

void Warpgroup::thread_ends(int thread) const {
  if (arrived_ > 0 && thread / kThreads == first_ / kThreads)
    runner_.fail("wgmma is for all 128 threads of a warpgroup, but this one has returned", site_, thread);
}

std::string Warpgroup::waiting() const {
  if (arrived_ == 0) return "";
  const auto missing = std::find_if(threads_.begin(), threads_.end(), [](const ThreadState& t) { return !t.here; });
  return fmt::format("; {} of the 128 threads of warpgroup {} are at the wgmma {}:{}, {} is not", arrived_,
                     first_ / kThreads, site_.file, site_.line,
                     runner_.name(first_ + static_cast<int>(missing - threads_.begin())));
}

const Site* Warpgroup::unfinished() const { return accumulators_.empty() ? nullptr : &accumulators_.front()->site; }

const Site* Warpgroup::reading(uint32_t first, uint32_t end) const {
  for (const Reading& reading : readings_)
    if (reading.first < end && first < reading.end) return &reading.site;
  return nullptr;
}

}  // namespace simt
