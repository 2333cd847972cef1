// The plain CPU softmax in double that every form is compared with, and the error it allows.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

// Softmax of each row of x [rows, cols]; the special rows as softmax_rows() documents them.
inline std::vector<double> softmax_reference(const std::vector<float>& x, int64_t rows, int64_t cols) {
  std::vector<double> y(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = x.data() + r * cols;
    double* to = y.data() + r * cols;
    double max = -std::numeric_limits<double>::infinity(), sum = 0;
    bool undefined = false;
    for (int64_t c = 0; c < cols; ++c) {
      undefined = undefined || std::isnan(from[c]) || from[c] == std::numeric_limits<float>::infinity();
      if (from[c] > max) max = from[c];
    }
    for (int64_t c = 0; c < cols; ++c) sum += to[c] = std::isinf(max) ? 0 : std::exp(from[c] - max);
    for (int64_t c = 0; c < cols; ++c)
      to[c] = undefined ? std::numeric_limits<double>::quiet_NaN() : sum > 0 ? to[c] / sum : 0;
  }
  return y;
}

// Largest relative error of a probability, of rows whose finite values span `spread`, in float. __expf(d) is wrong by at
// most 2 + 1.16·|d| units of 2^-23 (CUDA C++ Programming Guide, intrinsic functions), and |d| ≤ spread; the sum brings in
// the error of its terms, weighted by themselves (the entropy, ≤ ln cols), and of its additions.
inline double softmax_tolerance(int64_t cols, double spread) {
  return 0x1p-23 * (16 + 2 * std::log(double(cols)) + 2 * spread);
}
constexpr double kSmallestProbability = 0x1p-126;  // below it a float is subnormal, and may come out as 0
