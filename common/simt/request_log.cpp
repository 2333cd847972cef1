#include "common/simt/request_log.hpp"

namespace simt {

RequestLog::RequestLog() : table_(1024, -1) {}

namespace {
size_t hash(const Instruction& i) {
  const uint64_t kind = uint64_t(i.bytes) * 4 + (i.space == Space::shared) * 2 + i.load;
  return ((reinterpret_cast<uintptr_t>(i.pc) << 7 ^ kind) * 0x9e3779b97f4a7c15u) >> 32;
}
}  // namespace

RequestLog::Source& RequestLog::source_of(const Instruction& instruction) {
  for (size_t slot = hash(instruction);; ++slot) {
    int& index = table_[slot & (table_.size() - 1)];
    if (index >= 0 && sources_[index].instruction == instruction) return sources_[index];
    if (index >= 0) continue;
    index = static_cast<int>(sources_.size());
    sources_.push_back({instruction, {}, {}, 0, {}});
    if (2 * sources_.size() > table_.size()) grow();
    return sources_.back();
  }
}

void RequestLog::grow() {
  table_.assign(4 * table_.size(), -1);
  for (size_t i = 0; i < sources_.size(); ++i) {
    size_t slot = hash(sources_[i].instruction);
    while (table_[slot & (table_.size() - 1)] >= 0) ++slot;
    table_[slot & (table_.size() - 1)] = static_cast<int>(i);
  }
}

void RequestLog::add(const Instruction& instruction, int lane, uintptr_t address) {
  Source& source = source_of(instruction);
  if (source.generation != generation_) {
    source.generation = generation_;
    source.next.fill(0);
    touched_.push_back(static_cast<int>(&source - sources_.data()));
  }
  uint32_t& next = source.next[lane];
  uint64_t& passed = passed_[lane];
  while (next < source.open.size() && source.open[next].order <= passed) ++next;
  if (next == source.open.size()) {  // the first lane here: behind everything, or between what it passed and the rest
    const uint64_t order = passed == last_order_ ? last_order_ += kGap : passed + 1;
    ++open_count_;
    source.open.emplace_back();
    source.open.back().order = order;
    source.open.back().lanes = 0;
    source.open.back().address.fill(-1);
  }
  Open& open = source.open[next++];
  open.lanes |= 1u << lane;
  open.address[lane] = static_cast<int64_t>(address);
  passed = open.order;
}

void RequestLog::close(Source& source, const Open& open) {
  WarpRequest request;
  request.bytes = source.instruction.bytes;
  request.load = source.instruction.load;
  request.address = open.address;
  Tally& tally = source.tally;
  ++tally.requests;
  tally.lanes += static_cast<uint64_t>(__builtin_popcount(open.lanes));
  if (source.instruction.space == Space::global) {
    tally.sectors += static_cast<uint64_t>(global_sectors(request));
    tally.l1_lines += static_cast<uint64_t>(global_lines(request));
  } else {
    const SharedCost cost = shared_cost(request);
    tally.wavefronts += static_cast<uint64_t>(cost.wavefronts);
    tally.least_wavefronts += static_cast<uint64_t>(cost.least);
  }
}

void RequestLog::close_all() {
  for (const int i : touched_) {
    for (const Open& open : sources_[i].open) close(sources_[i], open);
    sources_[i].open.clear();
  }
  touched_.clear();
  open_count_ = 0;
  ++generation_;
  last_order_ = 0;
  passed_.fill(0);
}

void RequestLog::close_passed(unsigned lanes) {
  uint64_t least = UINT64_MAX;
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1) least = std::min(least, passed_[lane]);
  if (least >= last_order_ || open_count_ > kMostOpen) return close_all();
  for (const int i : touched_) {
    Source& source = sources_[i];
    uint32_t count = 0;
    while (count < source.open.size() && source.open[count].order <= least) close(source, source.open[count++]);
    open_count_ -= count;
    source.open.erase(source.open.begin(), source.open.begin() + count);
    for (uint32_t& next : source.next) next -= std::min(next, count);
  }
}

std::vector<std::pair<Instruction, Tally>> RequestLog::take() {
  close_all();
  std::vector<std::pair<Instruction, Tally>> result;
  for (const Source& source : sources_) result.emplace_back(source.instruction, source.tally);
  sources_.clear();
  std::fill(table_.begin(), table_.end(), -1);
  return result;
}

}  // namespace simt
