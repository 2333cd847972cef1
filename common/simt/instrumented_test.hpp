// For the tests of the instrumented build: kernels mark a line by "// [name]", a test finds it by that name.
#pragma once
#include <fstream>
#include <string>

#include "common/catch.hpp"
#include "common/launch.hpp"
#include "common/simt/counts.hpp"

// The number of the line of `file` that bears the mark.
inline int marked_line(const std::string& name, const char* file = __builtin_FILE()) {
  std::ifstream source(file);
  std::string text;
  for (int line = 1; std::getline(source, text); ++line)
    if (text.find("// [" + name + "]") != std::string::npos) return line;
  throw std::runtime_error(name + ": no such mark in " + file);
}

// The entry of a marked line; there must be one.
inline simt::LineCounts line_of(const simt::KernelCounts& kernel, const std::string& name, simt::Space space, bool load,
                                const char* file = __builtin_FILE()) {
  for (const simt::LineCounts& line : kernel.lines)
    if (line.line == marked_line(name, file) && line.space == space && line.load == load && line.file == file)
      return line;
  throw std::runtime_error(name + ": nothing was counted there");
}
