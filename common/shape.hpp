// A problem size as the user writes it: --shape 4096x4096x1024.
#pragma once
#include <string>
#include <vector>

// The largest size of one dimension. Kernels round sizes up to whole tiles, in int: 2^31 has to stay out of reach.
constexpr int kMostSize = 2000000000;

struct Shape {
  std::vector<int> dims;
  int operator[](size_t i) const { return dims[i]; }
  std::string text() const {  // "4096×4096×1024"
    std::string s;
    for (int d : dims) s += (s.empty() ? "" : "×") + std::to_string(d);
    return s;
  }
};

// Reads "4096x4096x1024"; `form` ("MxNxK") says how many numbers there have to be. Throws BadInput, in one line, for
// text, zero, a negative number, a number above kMostSize or the wrong count.
Shape parse_shape(const std::string& text, const std::string& form);
