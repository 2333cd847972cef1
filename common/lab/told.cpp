#include <fmt/format.h>

#include "common/lab/listing.hpp"

namespace lab {

std::string told(const std::vector<simt::KernelCounts>& kernels) {
  std::string text;
  for (const simt::KernelCounts& kernel : kernels) {
    text += fmt::format("lab: {}\n", kernel_title(kernel));
    for (const simt::LineCounts& line : kernel.lines) {
      const double requests = double(line.requests);
      const std::string what = fmt::format("{} {} memory", line.load ? "loads from" : "stores to",
                                           line.space == simt::Space::shared ? "shared" : "global");
      std::string takes;
      if (line.space == simt::Space::shared) {
        takes = fmt::format("{:.2f} wavefronts per request", double(line.wavefronts) / requests);
        if (costs_extra(line)) takes += fmt::format(", {:.2f} would do", double(line.least_wavefronts) / requests);
      } else {
        takes = fmt::format("{:.2f} sectors per request", double(line.sectors) / requests);
      }
      text +=
          fmt::format("lab: {} at line {} of {} ({}, {} requests of {:.0f} lanes, {} bytes a lane)\n", takes, line.line,
                      shown_path(line.file), what, line.requests, double(line.lanes) / requests, line.bytes_per_lane);
    }
  }
  return text;
}

}  // namespace lab
