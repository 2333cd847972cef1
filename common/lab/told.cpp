#include <fmt/format.h>

#include <algorithm>

#include "common/lab/listing.hpp"

namespace lab {
namespace {

// "32.00 wavefronts per request at line 18, 1.00 would do"
std::string cost_in_words(const simt::LineCounts& line) {
  const double requests = double(line.requests);
  const bool shared = line.space == simt::Space::shared;
  std::string text =
      fmt::format("{:.2f} {} per request at line {}", double(shared ? line.wavefronts : line.sectors) / requests,
                  shared ? "wavefronts" : "sectors", line.line);
  if (shared && costs_extra(line)) text += fmt::format(", {:.2f} would do", double(line.least_wavefronts) / requests);
  return text;
}

}  // namespace

std::string told(const std::vector<simt::KernelCounts>& kernels) {
  std::string text;
  for (const simt::KernelCounts& kernel : kernels) {
    text += fmt::format("lab: {}\n", kernel_title(kernel));
    for (const Stretch& stretch : listing(kernel, 0))
      for (const ListedLine& line : stretch.lines)
        for (const simt::LineCounts* counts : line.counts)
          text += fmt::format("  {:<58} {}, {} requests of {} lanes:  {}\n", cost_in_words(*counts),
                              access_text(*counts), counts->requests, counts->lanes / counts->requests,
                              line.text.substr(std::min(line.text.find_first_not_of(' '), line.text.size())));
  }
  return text;
}

}  // namespace lab
