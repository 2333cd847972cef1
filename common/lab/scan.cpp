// lab_scan FILE: what of a reader's kernel file the executor cannot run. Exit status: 0 nothing, 2 something, or no file.
#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "common/error.hpp"
#include "common/lab/unsupported.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: lab_scan FILE\n");
    return kBadInput;
  }
  std::ifstream file(argv[1]);
  std::string source{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    fmt::print(stderr, "error: {}: cannot be read\n", argv[1]);
    return kBadInput;
  }
  const auto found = lab::unsupported(source);
  fmt::print(stderr, "{}", lab::unsupported_text(argv[1], found));
  return found.empty() ? kOk : kBadInput;
}
