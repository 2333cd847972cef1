#include <fmt/format.h>

#include "common/lab/listing.hpp"

namespace lab {
namespace {

// "32.00 wavefronts per request at line 18: 4-byte loads from shared memory; 1.00 would do"
std::string told(const simt::LineCounts& line) {
  const auto per_request = [&](uint64_t count) { return double(count) / double(line.requests); };
  const char* way = line.load ? "loads from" : "stores to";
  if (line.space == simt::Space::global)
    return fmt::format("{:.2f} sectors per request at line {}: {}-byte {} global memory", per_request(line.sectors),
                       line.line, line.bytes_per_lane, way);
  return fmt::format("{:.2f} wavefronts per request at line {}: {}-byte {} shared memory{}",
                     per_request(line.wavefronts), line.line, line.bytes_per_lane, way,
                     costs_extra(line) ? fmt::format("; {:.2f} would do", per_request(line.least_wavefronts)) : "");
}

}  // namespace

std::string told(const std::vector<simt::KernelCounts>& kernels) {
  std::string text;
  for (const simt::KernelCounts& kernel : kernels) {
    text += fmt::format("lab: {}\n", kernel_title(kernel));
    std::string file;
    for (const simt::LineCounts& line : kernel.lines) {
      if (line.file != file) text += fmt::format(" {}\n", shown_path(file = line.file));
      text += fmt::format("  {}\n", told(line));
    }
  }
  return text;
}

}  // namespace lab
