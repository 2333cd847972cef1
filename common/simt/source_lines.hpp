// From a program counter to a line of the source, by the debug information of the running program.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "common/simt/executor.hpp"

namespace simt {

struct SourceLine {
  std::string file;
  int line = 0;
};

// A return address as a number that fits 32 bits, and back.
uint32_t program_offset(const void* return_address);
const void* program_address(uint32_t offset);

// The lines that these return addresses stand for. Where the call was inlined, the innermost frame that is neither in a
// header of common/ nor in the system's: the kernel's own line. Runs addr2line once for all that were not asked before.
std::vector<SourceLine> source_lines(const std::vector<const void*>& return_addresses);

// "file:line" of an instrumented build's return address; in other builds there is no debug information: `otherwise`.
std::string location(const void* return_address, Site otherwise);

}  // namespace simt
