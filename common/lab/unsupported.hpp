// CUDA that a reader's kernel file may contain and the executor cannot run.
#pragma once
#include <string>
#include <vector>

namespace lab {

struct Unsupported {
  int line;
  std::string construct, instead;  // "texture", "read through a plain pointer …"
};

// What of `source` the executor cannot run, in the order of lines, each construct once; comments and text in quotes do
// not count. A file without `void run(Lab&` is told so too.
std::vector<Unsupported> unsupported(const std::string& source);

// "my.cuh:12: texture is not supported: read through …", one line each.
std::string unsupported_text(const std::string& file, const std::vector<Unsupported>& found);

}  // namespace lab
