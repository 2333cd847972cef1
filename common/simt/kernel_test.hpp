// For the tests of the executor: launches a kernel and tells what it was refused with; kernels mark a line by "// [name]",
// a test finds it by that name.
#pragma once
#include <fstream>
#include <string>

#include "common/catch.hpp"
#include "common/launch.hpp"

// The message a launch is refused with; empty if it ran.
template <class... P, class... A>
std::string refusal(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, A... arguments) {
  try {
    Stream stream;
    launch(kernel, grid, block, on(stream).smem(shared_bytes), arguments...);
  } catch (const simt::KernelError& error) {
    return error.what();
  }
  return "";
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The number of the line of `file` that bears the mark.
inline int marked_line(const std::string& name, const char* file = __builtin_FILE()) {
  std::ifstream source(file);
  std::string text;
  for (int line = 1; std::getline(source, text); ++line)
    if (has(text, "// [" + name + "]")) return line;
  throw std::runtime_error(name + ": no such mark in " + file);
}
// "test_checks.cpp:12", as messages name it.
inline std::string at(const std::string& mark, const char* file = __builtin_FILE()) {
  const std::string path = file;
  return path.substr(path.rfind('/') + 1) + ":" + std::to_string(marked_line(mark, file));
}
