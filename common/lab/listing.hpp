// The source of a kernel with its counts in the margin, as text for a terminal and as one self-contained page.
#pragma once
#include <string>
#include <vector>

#include "common/lab/report.hpp"

namespace lab {

// A row of the margin: "!", 32, "shared ld", "32.00 (1.00) wavefronts".
struct Margin {
  bool extra;  // costs more than needed
  uint64_t count;
  std::string what, cost;
};
// A line of source, with the requests and barriers it makes; most have none and are there for context.
struct ListedLine {
  int number;
  std::string text;
  std::vector<Margin> margin;
};
// Lines of one file that stand together; between two stretches lines are left out.
struct Stretch {
  std::string file;  // as shown_path tells it
  std::vector<ListedLine> lines;
};

// `path` relative to the repository, where it lies in it.
std::string shown_path(const std::string& path);

// The lines of `kernel` that make requests, its barriers, each with `context` lines before and behind it. A file that cannot be read
// is listed by its line numbers alone.
std::vector<Stretch> listing(const simt::KernelCounts& kernel, int context = 2);

// "gemm_kernel<8> · 1 launch · 4 blocks of 256 threads · 34 barriers a block"
std::string kernel_title(const simt::KernelCounts& kernel);

std::string listing_text(const Table& table);
std::string listing_html(const std::vector<Table>& tables, const Card& card);

}  // namespace lab
