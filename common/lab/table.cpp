#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/lab/report.hpp"

namespace lab {
namespace {

using simt::Space;

constexpr double kSectorBytes = 32;

// "ok  (100% of tol)" in one space less: the column's width.
std::string narrow(std::string text) {
  if (const size_t at = text.find("  "); at != std::string::npos) text.erase(at, 1);
  return text;
}

std::string count_text(uint64_t count) {
  return count < 10'000'000 ? std::to_string(count) : fmt::format("{:.1f}M", double(count) * 1e-6);
}

std::string number_text(double value) {
  if (!(value > 0)) return "–";
  if (value < 0.1) return fmt::format("{:.2g}", value);
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 1000 ? 1 : 0);
}

std::string bound_text(const Card& card, double flop, double bytes) {
  if (!(bytes > 0)) return "–";
  const Bound bound = roofline(card, flop, bytes);
  return fmt::format("{} {}", number_text(1e6 * bound.seconds), bound.memory ? "mem" : "fma");
}

// "4.00": sectors of a request, and how many requests there were.
std::string sectors_text(const Requests& r) {
  if (r.requests == 0) return fmt::format("{:>9}{:>8}", "–", "");
  return fmt::format("{:>9}{:>8.2f}", count_text(r.requests), double(r.sectors) / double(r.requests));
}

// "8.00 of 1.00": wavefronts of a request, and the least it could take.
std::string wavefronts_text(const Requests& r) {
  if (r.requests == 0) return fmt::format("{:>9}{:>14}", "–", "");
  const double requests = double(r.requests);
  return fmt::format(
      "{:>9}{:>14}", count_text(r.requests),
      fmt::format("{:.2f} of {:.2f}", double(r.wavefronts) / requests, double(r.least_wavefronts) / requests));
}

constexpr int kName = 36;

std::string arithmetic_text(const Table& table, const Card& card) {
  std::string text = fmt::format(" {:<{}} {:<16}{:>9}{:>9}{:>8}{:>10}{:>8}{:>10}{:>12}\n", "rung", kName, "check",
                                 "requests", "barriers", "MFLOP", "MB moved", "FLOP/B", "least µs", "uncached µs");
  for (const Rung& rung : table.rungs) {
    if (!rung.skip.empty()) {
      text += fmt::format(" {:<{}} skipped: {}\n", rung.name, kName, rung.skip);
      continue;
    }
    const double moved = sector_bytes(rung.kernels);
    uint64_t requests = 0;
    for (const Space space : {Space::global, Space::shared})
      for (const bool load : {true, false}) requests += sum(rung.kernels, space, load).requests;
    const bool failed = rung.check.rfind("FAILED", 0) == 0;
    text += fmt::format(" {:<{}} {:<16}{:>9}{:>9.1f}{:>8}{:>10}{:>8}{:>10}{:>12}\n", rung.name, kName,
                        failed ? "FAILED" : narrow(rung.check), requests > 0 ? count_text(requests) : "–",
                        rung.barriers_per_block, number_text(rung.flop * 1e-6), number_text(moved * 1e-6),
                        moved > 0 ? number_text(rung.flop / moved) : "–", bound_text(card, rung.flop, rung.least_bytes),
                        moved > 0 ? bound_text(card, rung.flop, moved) : "–");
    if (failed) text += fmt::format("    {}\n", rung.check);
    if (!rung.note.empty()) text += fmt::format("    {}\n", rung.note);
  }
  return text +
         fmt::format(
             " Barriers are a block's. Bounds on {} ({:.1f} TFLOP/s fp32, {:.0f} GB/s): least = every byte once; "
             "uncached = MB moved.\n",
             card.name, card.fp32_flops * 1e-12, card.bytes_per_second * 1e-9);
}

std::string requests_text(const Table& table) {
  std::string text = fmt::format(" {:<{}}{:>17}{:>17}{:>23}{:>23}\n {:<{}}", "requests, and what one takes", kName,
                                 "global loads", "global stores", "shared loads", "shared stores", "", kName);
  text += fmt::format("{0:>17}{0:>17}{1:>23}{1:>23}\n", "sectors", "wavefronts of least");
  for (const Rung& rung : table.rungs) {
    if (rung.kernels.empty()) continue;
    text += fmt::format(" {:<{}}{}{}{}{}", rung.name, kName, sectors_text(sum(rung.kernels, Space::global, true)),
                        sectors_text(sum(rung.kernels, Space::global, false)),
                        wavefronts_text(sum(rung.kernels, Space::shared, true)),
                        wavefronts_text(sum(rung.kernels, Space::shared, false)));
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace

Requests sum(const std::vector<simt::KernelCounts>& kernels, Space space, bool load) {
  Requests total;
  for (const simt::KernelCounts& kernel : kernels)
    for (const simt::LineCounts& line : kernel.lines) {
      if (line.space != space || line.load != load) continue;
      total.requests += line.requests;
      total.lanes += line.lanes;
      total.sectors += line.sectors;
      total.l1_lines += line.l1_lines;
      total.wavefronts += line.wavefronts;
      total.least_wavefronts += line.least_wavefronts;
      total.bytes += line.bytes;
    }
  return total;
}

double sector_bytes(const std::vector<simt::KernelCounts>& kernels) {
  return kSectorBytes * double(sum(kernels, Space::global, true).sectors + sum(kernels, Space::global, false).sectors);
}

bool costs_extra(const simt::LineCounts& line) {
  if (line.space == Space::shared) return line.wavefronts > line.least_wavefronts;
  return line.sectors > line.requests * static_cast<uint64_t>(line.bytes_per_lane);  // 32 lanes in sectors of 32 bytes
}

std::string table_text(const Table& table, const Card& card) {
  const bool counted =
      std::any_of(table.rungs.begin(), table.rungs.end(), [](const Rung& r) { return !r.kernels.empty(); });
  return arithmetic_text(table, card) + (counted ? requests_text(table) : "");
}

}  // namespace lab
