// Reads device code and library names out of an executable, a shared library, an object file, an archive, a cubin or a
// fatbin, without any of NVIDIA's tools. The fatbin layout is not documented: it was found by comparing files that nvcc
// 13.0 made for many targets; files of 11.x and 12.x are expected to look the same, but were not tried. Nothing in the
// file is trusted: every offset is checked against its size.
#pragma once
#include <string>

#include "env_check/facts.hpp"

namespace env_check {

// Never throws for what is in the file: `error` says what was wrong, and the rest holds what could be read before.
// Fills path, machine, elf_bits, code, and the names in `needed` (CUDA's libraries only, not yet resolved).
// `search_path` gets DT_RUNPATH or, without one, DT_RPATH ($ORIGIN replaced); `is_runpath` says which.
struct ElfDetails {
  Binary binary;
  std::string search_path;
  bool is_runpath = false;
};
ElfDetails read_binary(const std::string& path);

// Only the first bytes: word size and machine. {0, ""} when it is no ELF file.
struct ElfKind {
  int bits = 0;
  std::string machine;
};
ElfKind elf_kind(const std::string& path);

}  // namespace env_check
