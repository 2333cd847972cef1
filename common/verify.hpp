// Comparing a result with its reference so that nothing wrong can pass: NaN and infinity are counted apart, the test
// accepts (err <= tol) and never the other way round, and the worst element is named by its coordinates.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/device.hpp"

// What a comparison found.
struct Check {
  bool ok = false;
  double used = 0;  // worst |got - want| / tolerance; at most 1 when ok
  double max_abs = 0, mean_abs = 0;
  size_t mismatches = 0, not_finite = 0;
  std::string worst;  // "(row, col): got …, want …"
  // "ok  (3% of tol)" or "FAILED …", for the table.
  std::string text() const {
    if (ok) return fmt::format("ok  ({:.0f}% of tol)", std::ceil(100 * used));
    return fmt::format("FAILED {} wrong, {} NaN/Inf, worst {}", mismatches, not_finite, worst);
  }
};

inline double to_double(float v) { return static_cast<double>(v); }
inline double to_double(double v) { return v; }
inline double to_double(int v) { return v; }
inline double to_double(bfloat16 v) { return static_cast<double>(__bfloat162float(v)); }
inline double to_double(__half v) { return static_cast<double>(__half2float(v)); }

constexpr double kFloatUlp = 0x1p-24;    // largest relative rounding error of a float
constexpr double kBfloat16Ulp = 0x1p-8;  // of a bfloat16
constexpr double kHalfUlp = 0x1p-11;     // of a half

// Tolerance of a float dot product of length K against double: six deviations of a random walk of K roundings, each of
// relative size 2^-24, on sums as large as `magnitude` = Σ|a·b| (Higham, Accuracy and Stability, 2.8: such errors grow
// like √K, not K).
inline double dot_tolerance(double magnitude, double K) { return 6 * std::sqrt(K) * kFloatUlp * magnitude + 1e-30; }

// Compares got[i] with want[i]; tolerance(i) is the largest allowed |difference|. Where want is NaN or infinite, got has
// to be the same kind. `columns` only shapes the coordinates in the report.
template <class T, class W, class Tolerance>
Check compare(const std::vector<T>& got, const std::vector<W>& want, Tolerance tolerance, size_t columns) {
  Check check;
  if (got.size() != want.size()) {
    check.worst = fmt::format("{} elements instead of {}", got.size(), want.size());
    check.mismatches = got.size() > want.size() ? got.size() - want.size() : want.size() - got.size();
    return check;
  }
  double sum = 0, worst_used = -1;
  for (size_t i = 0; i < got.size(); ++i) {
    const double g = to_double(got[i]), w = to_double(want[i]);
    double used;
    if (std::isfinite(g) && std::isfinite(w)) {
      const double error = std::fabs(g - w);
      sum += error;
      if (error > check.max_abs) check.max_abs = error;
      used = error <= 0 ? 0 : error / tolerance(i);
    } else {
      const bool same = (std::isnan(g) && std::isnan(w)) || g == w;
      if (!same) ++check.not_finite;
      used = same ? 0 : std::numeric_limits<double>::infinity();
    }
    if (!(used <= 1)) ++check.mismatches;
    if (!(used <= worst_used)) {
      worst_used = used;
      check.worst = fmt::format("({}, {}): got {}, want {}", i / columns, i % columns, g, w);
    }
  }
  check.used = worst_used < 0 ? 0 : worst_used;
  check.mean_abs = got.empty() ? 0 : sum / static_cast<double>(got.size());
  check.ok = check.mismatches == 0;
  return check;
}

// The same with one tolerance for all.
template <class T, class W>
Check compare(const std::vector<T>& got, const std::vector<W>& want, double tolerance, size_t columns) {
  return compare(
      got, want, [=](size_t) { return tolerance; }, columns);
}

// Every element equal, bit patterns of NaN aside.
template <class T, class W>
Check compare_exact(const std::vector<T>& got, const std::vector<W>& want, size_t columns) {
  return compare(
      got, want, [](size_t) { return 0.0; }, columns);
}
