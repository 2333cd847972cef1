#include "common/shape.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.hpp"

Shape parse_shape(const std::string& text, const std::string& form) {
  const size_t wanted = static_cast<size_t>(std::count(form.begin(), form.end(), 'x')) + 1;
  const auto bad = [&](const std::string& why) {
    return BadInput(fmt::format("--shape {}: {}; wanted {} with {} whole numbers from 1 to {}", text, why, form, wanted,
                                kMostSize));
  };
  Shape shape;
  size_t begin = 0;
  for (;;) {
    const size_t end = std::min(text.find('x', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    if (part.empty() || part.find_first_not_of("0123456789") != std::string::npos)
      throw bad(fmt::format("'{}' is not a whole number", part));
    if (part.size() > 10 || std::stoll(part) > kMostSize) throw bad(fmt::format("{} is too large", part));
    if (std::stoll(part) == 0) throw bad("0 is not a size");
    shape.dims.push_back(std::stoi(part));
    if (end == text.size()) break;
    begin = end + 1;
  }
  if (shape.dims.size() != wanted) throw bad(fmt::format("{} numbers", shape.dims.size()));
  return shape;
}
