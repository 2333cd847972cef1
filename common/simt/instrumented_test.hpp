// For the tests of the instrumented build: what was counted at a marked line (kernel_test.hpp).
#pragma once
#include "common/simt/counts.hpp"
#include "common/simt/kernel_test.hpp"

// The entry of a marked line; there must be one.
inline simt::LineCounts line_of(const simt::KernelCounts& kernel, const std::string& name, simt::Space space, bool load,
                                const char* file = __builtin_FILE()) {
  for (const simt::LineCounts& line : kernel.lines)
    if (line.line == marked_line(name, file) && line.space == space && line.load == load && line.file == file)
      return line;
  throw std::runtime_error(name + ": nothing was counted there");
}
