// The command line of env_check, read without a library: this program must build where there is none.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace env_check {

struct Options {
  bool help = false, json = false, verbose = false, python = true;
  std::string save_facts, facts;
  std::vector<std::string> binaries;
  std::optional<int> error;  // a CUDA error number that a program gave
};

extern const char kUsage[];

// Throws BadInput, one line, for an unknown option, a missing or empty value, or one that is no number.
Options parse_options(const std::vector<std::string>& arguments);

}  // namespace env_check
