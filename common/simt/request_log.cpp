#include "common/simt/request_log.hpp"

#include <algorithm>

namespace simt {

RequestLog::RequestLog() : table_(1024, -1) {
  clear();
  next_warp();
}

namespace {
size_t hash(const Instruction& i) {
  const uint64_t kind = uint64_t(i.bytes) * 4 + (i.space == Space::shared) * 2 + i.load;
  return ((reinterpret_cast<uintptr_t>(i.pc) << 7 ^ kind) * 0x9e3779b97f4a7c15u) >> 32;
}
}  // namespace

int RequestLog::source_of(const Instruction& instruction) {
  for (size_t slot = hash(instruction);; ++slot) {
    int& index = table_[slot & (table_.size() - 1)];
    if (index >= 0 && sources_[index].instruction == instruction) return index;
    if (index >= 0) continue;
    const int added = index = static_cast<int>(sources_.size());
    sources_.push_back({instruction, {}, {}, -1, 0});
    if (2 * sources_.size() > table_.size()) grow();
    return added;
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

bool RequestLog::open_later(int source, int from) const {
  while (from && open_[from].source != source) from = open_[from].next;
  return from;
}

// Compilers move code that they think is seldom run behind the loop that it belongs to: then addresses do not tell the
// order. The first request of this instruction behind `from`, if no instruction comes by twice on the way there, as in
// the next turn of a loop, or if it lies behind the loop. 0: none.
int RequestLog::later(int source, int from) {
  ++walk_;
  if (from) sources_[open_[from].source].walk = walk_;
  bool turns = false;
  uintptr_t end_of_loop = open_[from].pc;
  int found = open_[from].next;
  for (; found && open_[found].source != source; found = open_[found].next) {
    uint64_t& walk = sources_[open_[found].source].walk;
    turns |= walk == walk_;
    walk = walk_;
    end_of_loop = std::max(end_of_loop, open_[found].pc);
  }
  return turns && (!found || returns_to_loop(source, end_of_loop)) ? 0 : found;
}

// Has a lane gone from this instruction to one that the present walk has come by, on a way behind `end_of_loop`?
bool RequestLog::returns_to_loop(int source, uintptr_t end_of_loop) {
  const uint64_t loop = walk_++;
  for (ways_.assign(1, source); !ways_.empty();) {
    const int here = ways_.back();
    ways_.pop_back();
    if (sources_[here].walk == loop) return true;
    if (sources_[here].walk == walk_ || address_of(here) <= end_of_loop) continue;
    sources_[here].walk = walk_;
    ways_.insert(ways_.end(), sources_[here].followed_by.begin(), sources_[here].followed_by.end());
  }
  return address_of(source) <= end_of_loop;
}

// Has a lane gone from instruction `from` to `to` without coming by `avoided`?
bool RequestLog::leads_to(int from, int to, int avoided) {
  ++walk_;
  if (avoided >= 0) sources_[avoided].walk = walk_;
  for (ways_.assign(1, from); !ways_.empty();) {
    const int here = ways_.back();
    ways_.pop_back();
    if (here == to) return true;
    if (sources_[here].walk == walk_) continue;
    sources_[here].walk = walk_;
    ways_.insert(ways_.end(), sources_[here].followed_by.begin(), sources_[here].followed_by.end());
  }
  return false;
}

// The open request that the lane's access belongs to; a new one where there is none.
int RequestLog::find(int source, uintptr_t pc, int lane) {
  int before = at_[lane], next = open_[before].next;
  uintptr_t last = pc_[lane];
  const auto pass = [&] {
    last = open_[next].pc;
    before = next;
    next = open_[next].next;
  };
  if (pc > last || open_later(source, next)) {
    if (pc <= last) {  // back to the top of a loop: passes the rest of this turn
      while (next && open_[next].pc > last) pass();
      last = 0;
    }
    while (next && open_[next].pc < pc && open_[next].pc > last) pass();
  }
  if (next && open_[next].source == source) return next;
  if (const int found = later(source, at_[lane])) return found;
  // New: behind what others do on their way to it, a branch that this lane has not taken, and in front of all else.
  for (before = at_[lane]; (next = open_[before].next); before = next)
    if (!leads_to(open_[next].source, source, last_source_[lane])) break;
  const int added = static_cast<int>(open_.size());
  open_.emplace_back();
  open_[added].source = source;
  open_[added].next = next;
  open_[added].pc = pc;
  open_[added].lanes = 0;
  if (!is_comparison(source)) open_[added].address.fill(-1);
  open_[before].next = added;
  return added;
}

void RequestLog::add(const Instruction& instruction, int lane, uintptr_t address) {
  const auto pc = reinterpret_cast<uintptr_t>(instruction.pc);
  int index = open_[at_[lane]].next;  // as a rule it does what the lanes before it did
  if (!index || !(sources_[open_[index].source].instruction == instruction))
    index = find(source_of(instruction), pc, lane);
  open_[index].address[lane] = static_cast<int64_t>(address);
  take_part(index, pc, lane);
}

void RequestLog::take_part(int index, uintptr_t pc, int lane) {
  open_[index].lanes |= 1u << lane;
  const int source = open_[index].source, last = last_source_[lane];
  if (last >= 0 && sources_[last].last_follower != source) {
    std::vector<int>& known = sources_[last].followed_by;
    if (std::find(known.begin(), known.end(), source) == known.end()) known.push_back(source);
    sources_[last].last_follower = source;
  }
  last_source_[lane] = source;
  at_[lane] = index;
  pc_[lane] = pc;
}

bool RequestLog::pass(const void* pc, int lane) {
  const auto address = reinterpret_cast<uintptr_t>(pc);
  if (pc_[lane] == address) return false;
  int index = open_[at_[lane]].next;
  if (!index || open_[index].pc != address || !is_comparison(open_[index].source))
    index = find(source_of({pc, Space::global, true, 0, false}), address, lane);
  take_part(index, address, lane);
  return true;
}

void RequestLog::close(const Open& open) {
  Source& source = sources_[open.source];
  if (is_comparison(open.source)) return;
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

void RequestLog::clear() {
  open_.resize(1);
  open_[0].next = 0;
  at_.fill(0);
}

void RequestLog::close_all() {
  for (int i = open_[0].next; i; i = open_[i].next) close(open_[i]);
  clear();
}

void RequestLog::close_passed(unsigned lanes) {
  unsigned here = 0;  // a lane that has passed no more than what is closed already
  for (int lane = 0; lane < 32; ++lane)
    if (at_[lane] == 0) here |= 1u << lane;
  int& first = open_[0].next;
  while (first && !(here & lanes)) {
    close(open_[first]);
    for (int lane = 0; lane < 32; ++lane)
      if (at_[lane] == first) {
        here |= 1u << lane;
        at_[lane] = 0;
      }
    first = open_[first].next;
  }
  if (!first)
    clear();
  else if (open_.size() > kMostOpen)
    close_all();
}

void RequestLog::next_warp() {
  close_all();
  pc_.fill(0);
  last_source_.fill(-1);
}

std::vector<std::pair<Instruction, Tally>> RequestLog::take() {
  close_all();
  std::vector<std::pair<Instruction, Tally>> result;
  for (const Source& source : sources_)
    if (source.instruction.bytes > 0) result.emplace_back(source.instruction, source.tally);
  sources_.clear();
  last_source_.fill(-1);
  std::fill(table_.begin(), table_.end(), -1);
  return result;
}

}  // namespace simt
