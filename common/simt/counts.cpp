#include "common/simt/counts.hpp"

#include <map>
#include <mutex>
#include <tuple>

#include "common/simt/block_runner.hpp"
#include "common/simt/counts_total.hpp"
#include "common/simt/source_lines.hpp"

namespace simt {
namespace {

using Key = std::tuple<const void*, Space, bool, int, bool>;  // an Instruction, in order

struct KernelTotal {
  const void* kernel;
  uint64_t launches = 0, blocks = 0, threads = 0;
  std::map<std::tuple<std::string, int, bool>, uint64_t> barriers;
  std::map<Key, Tally> tallies;
};

std::mutex mutex;
std::vector<KernelTotal> totals;  // in order of first launch

KernelTotal& total_of(const void* kernel) {
  for (KernelTotal& total : totals)
    if (total.kernel == kernel) return total;
  totals.push_back({kernel, 0, 0, 0, {}, {}});
  return totals.back();
}

void add(Tally& to, const Tally& t) {
  to.requests += t.requests;
  to.lanes += t.lanes;
  to.sectors += t.sectors;
  to.l1_lines += t.l1_lines;
  to.wavefronts += t.wavefronts;
  to.least_wavefronts += t.least_wavefronts;
}

// Several instructions may stand in one line: an unrolled loop, or two branches.
std::vector<LineCounts> by_line(const std::map<Key, Tally>& tallies) {
  std::vector<const void*> pcs;
  for (const auto& [key, tally] : tallies) pcs.push_back(std::get<0>(key));
  const std::vector<SourceLine> lines = source_lines(pcs);
  std::map<std::tuple<std::string, int, Space, bool, int, bool>, Tally> merged;
  size_t i = 0;
  for (const auto& [key, tally] : tallies) {
    const auto& [pc, space, load, bytes, async] = key;
    add(merged[{lines[i].file, lines[i].line, space, load, bytes, async}], tally);
    ++i;
  }
  std::vector<LineCounts> result;
  for (const auto& [key, t] : merged) {
    const auto& [file, line, space, load, bytes, async] = key;
    result.push_back({file, line, space, load, bytes, t.requests, t.lanes, t.sectors, t.l1_lines, t.wavefronts,
                      t.least_wavefronts, t.lanes * static_cast<uint64_t>(bytes), async});
  }
  return result;
}

}  // namespace

void count_launch(const void* kernel, uint64_t blocks, uint64_t threads_per_block) {
  const std::lock_guard<std::mutex> lock(mutex);
  KernelTotal& total = total_of(kernel);
  ++total.launches;
  total.blocks += blocks;
  total.threads += blocks * threads_per_block;
}

void add_to_total(const void* kernel, const std::vector<BarrierTally>& barriers,
                  const std::vector<std::pair<Instruction, Tally>>& tallies) {
  const std::lock_guard<std::mutex> lock(mutex);
  KernelTotal& total = total_of(kernel);
  for (const BarrierTally& b : barriers) total.barriers[{b.site.file, b.site.line, b.of_warp}] += b.count;
  for (const auto& [i, tally] : tallies) add(total.tallies[{i.pc, i.space, i.load, i.bytes, i.async}], tally);
}

bool counting() { return observer() != nullptr; }

std::vector<KernelCounts> take_counts() {
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<KernelCounts> result;
  for (const KernelTotal& total : totals) {
    KernelCounts counts;
    counts.kernel = kernel_name(total.kernel);
    counts.launches = total.launches, counts.blocks = total.blocks, counts.threads = total.threads;
    for (const auto& [key, count] : total.barriers) {
      const auto& [file, line, of_warp] = key;
      counts.barrier_lines.push_back({file, line, of_warp, count});
      if (!of_warp) counts.barriers += count;
    }
    counts.lines = by_line(total.tallies);
    result.push_back(std::move(counts));
  }
  totals.clear();
  return result;
}

}  // namespace simt
