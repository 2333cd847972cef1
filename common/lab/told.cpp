#include <fmt/format.h>

#include <algorithm>

#include "common/lab/listing.hpp"

namespace lab {

std::string told(const std::vector<simt::KernelCounts>& kernels) {
  std::string text;
  for (const simt::KernelCounts& kernel : kernels) {
    text += fmt::format("lab: {}\n", kernel_title(kernel));
    for (const Stretch& stretch : listing(kernel, 0))
      for (const ListedLine& line : stretch.lines)
        for (const Margin& m : line.margin) {
          const size_t begin = std::min(m.cost.find_first_not_of(' '), m.cost.size());
          text += fmt::format(
              "  {:<52} {} × {}:  {}\n",
              m.cost.empty() ? fmt::format("line {}", line.number)
                             : fmt::format("{} per request at line {}", m.cost.substr(begin), line.number),
              m.count, m.what, line.text.substr(std::min(line.text.find_first_not_of(' '), line.text.size())));
        }
  }
  return text;
}

}  // namespace lab
