// What the number format of an angle does to its sin and cos: computed on the host, printed behind the table of times.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "07_positional_encoding/angles.cuh"
#include "common/verify.hpp"

// How position × frequency is formed.
enum class AngleFormat { kHalf, kBfloat16, kFloat, kSplitFloat };

// The angle as that format gives it: both factors and the product rounded to it. NaN where the position is too large for
// the format.
inline double angle_in(AngleFormat format, int position, double frequency) {
  const auto product_in = [&](auto round) {
    const double p = to_double(round(float(position))), f = to_double(round(float(frequency)));
    return to_double(round(float(p * f)));
  };
  switch (format) {
    case AngleFormat::kHalf:
      return std::isinf(to_double(__float2half(float(position)))) ? NAN
                                                                  : product_in([](float v) { return __float2half(v); });
    case AngleFormat::kBfloat16:
      return product_in([](float v) { return __float2bfloat16(v); });
    case AngleFormat::kFloat:
      return product_in([](float v) { return v; });
    case AngleFormat::kSplitFloat:
      return reduced_angle(float(position), split_frequency(frequency));
  }
  return NAN;
}

// The largest |error| of sin or cos at that position over the frequencies 10000^(−2i/d); NaN where the format has no such
// position.
inline double worst_angle_error(AngleFormat format, int position, int d) {
  double worst = 0;
  for (int i = 0; i < d / 2; ++i) {
    const double frequency = std::pow(10000.0, -2.0 * i / d), truth = position * frequency;
    const double angle = angle_in(format, position, frequency);
    if (std::isnan(angle)) return NAN;
    worst =
        std::max({worst, std::fabs(std::sin(angle) - std::sin(truth)), std::fabs(std::cos(angle) - std::cos(truth))});
  }
  return worst;
}

inline void print_angle_errors() {
  constexpr int d = 1024, positions[] = {255, 4095, 40959, 262143};
  const std::pair<AngleFormat, const char*> formats[] = {{AngleFormat::kHalf, "fp16"},
                                                         {AngleFormat::kBfloat16, "bf16"},
                                                         {AngleFormat::kFloat, "fp32"},
                                                         {AngleFormat::kSplitFloat, "two floats, reduced"}};
  fmt::print(" largest error of sin or cos against float64, d = {} (computed on the host)\n {:<22}", d,
             "angle kept in");
  for (int position : positions) fmt::print("{:>12}", fmt::format("at {}", position));
  for (const auto& [format, name] : formats) {
    fmt::print("\n {:<22}", name);
    for (int position : positions) {
      const double error = worst_angle_error(format, position, d);
      fmt::print("{:>12}", std::isnan(error) ? "infinite" : fmt::format("{:.1e}", error));
    }
  }
  fmt::print("\n");
}
