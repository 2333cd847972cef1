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

std::string margin_text(const simt::LineCounts& c) {
  return fmt::format(" {} {:>8} {:<13} {}", costs_extra(c) ? '!' : ' ', c.requests, access_text(c), cost_text(c));
}

std::string stretch_text(const Stretch& stretch) {
  const size_t indent = indentation(stretch);
  std::string text;
  for (const ListedLine& line : stretch.lines) {
    const std::string source = line.text.substr(std::min(indent, line.text.size()));
    text += fmt::format("{:<{}}{:>5}  {}", line.counts.empty() ? "" : margin_text(*line.counts[0]), kMargin,
                        line.number, clipped(source, kWidth - kMargin - 8));
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
    for (size_t i = 1; i < line.counts.size(); ++i) text += margin_text(*line.counts[i]) + "\n";
  }
  return text;
}

}  // namespace

std::string shown_path(const std::string& path) {
  const std::string root = SOURCE_ROOT "/";
  return path.rfind(root, 0) == 0 ? path.substr(root.size()) : path;
}

std::vector<Stretch> listing(const simt::KernelCounts& kernel, int context) {
  std::map<std::string, std::map<int, std::vector<const simt::LineCounts*>>> files;
  for (const bool load : {true, false})  // a line loads before it stores
    for (const simt::LineCounts& line : kernel.lines)
      if (line.load == load) files[line.file][line.line].push_back(&line);
  std::vector<Stretch> stretches;
  for (const auto& [file, counted] : files) {
    const std::vector<std::string> source = lines_of(file);
    int shown = -1;  // the last line that was listed
    for (const auto& [number, counts] : counted) {
      const int first = std::max({number - context, 1, shown + 1});
      if (shown < 0 || first > shown + 1) stretches.push_back({shown_path(file), {}});
      std::vector<ListedLine>& lines = stretches.back().lines;
      const auto next = counted.upper_bound(number);
      const int before_next = next == counted.end() ? number + context : next->first - 1;
      for (int n = source.empty() ? number : first; n <= std::min(number + context, before_next); ++n) {
        if (n != number && n > static_cast<int>(source.size())) break;
        lines.push_back({n, n <= static_cast<int>(source.size()) ? source[n - 1] : "", {}});
        if (n == number) lines.back().counts = counts;
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

std::string access_text(const simt::LineCounts& line) {
  return fmt::format("{} {}{}", line.space == simt::Space::shared ? "shared" : "global", line.load ? "ld" : "st",
                     line.bytes_per_lane == 4 ? "" : fmt::format(" {}B", line.bytes_per_lane));
}

std::string cost_text(const simt::LineCounts& line) {
  const double requests = std::max<double>(1, double(line.requests));
  if (line.space == simt::Space::global) return fmt::format("{:>5.2f} sectors", double(line.sectors) / requests);
  return fmt::format("{:>5.2f}{} wavefronts", double(line.wavefronts) / requests,
                     costs_extra(line) ? fmt::format(" ({:.2f})", double(line.least_wavefronts) / requests) : "");
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
