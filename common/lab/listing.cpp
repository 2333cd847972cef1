#include "common/lab/listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

namespace lab {
namespace {

constexpr int kWidth = 120, kMargin = 49;  // columns of a terminal, and of the counts before the line number

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  if (!file && path[0] != '/') file.open(std::string(SOURCE_ROOT "/") + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Cuts at `width` characters of UTF-8.
std::string clipped(const std::string& text, size_t width) {
  size_t characters = 0, at = 0;
  for (; at < text.size(); ++at)
    if ((text[at] & 0xc0) != 0x80 && ++characters > width)
      return text.substr(0, text.find_last_not_of(' ', at - 1)) + "…";
  return text;
}

// The indentation that all lines of a stretch have.
size_t indentation(const Stretch& stretch) {
  size_t least = kWidth;
  for (const ListedLine& line : stretch.lines)
    if (const size_t at = line.text.find_first_not_of(' '); at != std::string::npos) least = std::min(least, at);
  return least;
}

// "global ld" or "shared st 16B": 4 bytes a lane are not said. Then "4.00 sectors" or "8.00 (1.00) wavefronts" of one
// request, with the least in brackets where it is less.
Margin margin_of(const simt::LineCounts& line) {
  const double requests = std::max<double>(1, double(line.requests));
  const bool extra = costs_extra(line), shared = line.space == simt::Space::shared;
  const std::string what = fmt::format("{} {}{}", shared ? "shared" : "global", line.load ? "ld" : "st",
                                       line.bytes_per_lane == 4 ? "" : fmt::format(" {}B", line.bytes_per_lane));
  if (!shared) return {extra, line.requests, what, fmt::format("{:>5.2f} sectors", double(line.sectors) / requests)};
  const std::string least = extra ? fmt::format(" ({:.2f})", double(line.least_wavefronts) / requests) : "";
  return {extra, line.requests, what, fmt::format("{:>5.2f}{} wavefronts", double(line.wavefronts) / requests, least)};
}

Margin margin_of(const simt::BarrierCounts& b) { return {false, b.count, b.of_warp ? "warp barrier" : "barrier", ""}; }

std::string margin_text(const Margin& m) {
  return fmt::format(" {} {:>8} {:<13} {}", m.extra ? '!' : ' ', m.count, m.what, m.cost);
}

std::string stretch_text(const Stretch& stretch) {
  const size_t indent = indentation(stretch);
  std::string text;
  for (const ListedLine& line : stretch.lines) {
    const std::string source = line.text.substr(std::min(indent, line.text.size()));
    text += fmt::format("{:<{}}{:>5}  {}", line.margin.empty() ? "" : margin_text(line.margin[0]), kMargin, line.number,
                        clipped(source, kWidth - kMargin - 8));
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
    for (size_t i = 1; i < line.margin.size(); ++i) {
      text += margin_text(line.margin[i]);
      text.erase(text.find_last_not_of(' ') + 1);
      text += '\n';
    }
  }
  return text;
}

}  // namespace

std::string shown_path(const std::string& path) {
  const std::string root = SOURCE_ROOT "/";
  return path.rfind(root, 0) == 0 ? path.substr(root.size()) : path;
}

std::vector<Stretch> listing(const simt::KernelCounts& kernel, int context) {
  std::map<std::string, std::map<int, std::vector<Margin>>> files;
  for (const bool load : {true, false})  // a line loads before it stores
    for (const simt::LineCounts& line : kernel.lines)
      if (line.load == load) files[line.file][line.line].push_back(margin_of(line));
  for (const simt::BarrierCounts& barrier : kernel.barrier_lines)
    files[barrier.file][barrier.line].push_back(margin_of(barrier));
  std::vector<Stretch> stretches;
  for (const auto& [file, counted] : files) {
    const std::vector<std::string> source = lines_of(file);
    int shown = -1;  // the last line that was listed
    for (const auto& [number, margin] : counted) {
      const int first = std::max({number - context, 1, shown + 1});
      if (shown < 0 || first > shown + 1) stretches.push_back({shown_path(file), {}});
      std::vector<ListedLine>& lines = stretches.back().lines;
      const auto next = counted.upper_bound(number);
      const int before_next = next == counted.end() ? number + context : next->first - 1;
      for (int n = source.empty() ? number : first; n <= std::min(number + context, before_next); ++n) {
        if (n != number && n > static_cast<int>(source.size())) break;
        lines.push_back({n, n <= static_cast<int>(source.size()) ? source[n - 1] : "", {}});
        if (n == number) lines.back().margin = margin;
        shown = n;
      }
    }
  }
  return stretches;
}

std::string kernel_title(const simt::KernelCounts& k) {
  const auto count = [](uint64_t n, const char* one, const char* more) {
    return fmt::format("{} {}", n, n == 1 ? one : more);
  };
  const uint64_t blocks = std::max<uint64_t>(1, k.blocks);
  return fmt::format("{} · {} · {} of {} · {} a block", k.kernel, count(k.launches, "launch", "launches"),
                     count(k.blocks, "block", "blocks"), count(k.threads / blocks, "thread", "threads"),
                     count(k.barriers / blocks, "barrier", "barriers"));
}

std::string listing_text(const Table& table) {
  std::string text;
  for (const Rung& rung : table.rungs)
    for (const simt::KernelCounts& kernel : rung.kernels) {
      text += fmt::format("\n {}\n {}\n", rung.name, kernel_title(kernel));
      std::string file;
      for (const Stretch& stretch : listing(kernel)) {
        if (stretch.file != file)
          text += fmt::format("   {:>8} {:<13} {:<23}{:>5}  {}\n", "requests", "access", "each takes", "line",
                              file = stretch.file);
        else
          text += fmt::format("{:>{}}\n", "⋮", kMargin + 5);
        text += stretch_text(stretch);
      }
    }
  return text.empty() ? text
                      : text + " ! more than needed: wavefronts (the least in brackets), or sectors for this width\n";
}

}  // namespace lab
