// Reads device code and library names out of an executable, a shared library, an object file, an archive, a cubin or a
// fatbin, without any of NVIDIA's tools. Nothing in the file is trusted: every offset is checked against its size.
#pragma once
#include <string>
#include <vector>

#include "env_check/facts.hpp"

namespace env_check {

// Never throws for what is in the file: `error` says what was wrong, and the rest holds what could be read before.
// Fills path, machine, elf_bits and code of `binary`; `needed` are the names of DT_NEEDED, and `rpath` and `runpath` the
// texts of DT_RPATH and DT_RUNPATH.
struct ElfDetails {
  Binary binary;
  std::vector<std::string> needed;
  std::string rpath, runpath;
};
ElfDetails read_binary(const std::string& path, bool device_code = true);

// Only the first bytes: word size and machine. {0, ""} when it is no ELF file.
struct ElfKind {
  int bits = 0;
  std::string machine;
};
ElfKind elf_kind(const std::string& path);

}  // namespace env_check
