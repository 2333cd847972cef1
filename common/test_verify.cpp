#include "common/catch.hpp"
#include "common/verify.hpp"

namespace {
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
using Floats = std::vector<float>;
using Doubles = std::vector<double>;
}  // namespace

TEST_CASE("compare: within the tolerance is ok, and says how much of it was used") {
  const Check check = compare(Floats{1.f, 2.05f}, Doubles{1, 2}, 0.1, 1);
  CHECK(check.ok);
  CHECK(check.used == Approx(0.5).epsilon(1e-4));
  CHECK(check.max_abs == Approx(0.05).epsilon(1e-4));
}
TEST_CASE("compare: beyond the tolerance fails and names the place") {
  const Check check = compare(Floats{0, 0, 0, 0, 9, 0}, Doubles(6, 0.0), 0.1, 3);
  CHECK_FALSE(check.ok);
  CHECK(check.mismatches == 1);
  CHECK(check.worst.find("(1, 1)") == 0);
}
TEST_CASE("compare: NaN never passes for a number, nor a number for NaN") {
  CHECK_FALSE(compare(Floats{kNan}, Doubles{1}, 1e30, 1).ok);
  CHECK_FALSE(compare(Floats{1}, Doubles{kNan}, 1e30, 1).ok);
  CHECK(compare(Floats{kNan}, Doubles{kNan}, 0.0, 1).ok);
}
TEST_CASE("compare: an infinity needs its sign") {
  CHECK(compare(Floats{kInf}, Doubles{kInf}, 0.0, 1).ok);
  CHECK_FALSE(compare(Floats{-kInf}, Doubles{kInf}, 1e30, 1).ok);
  CHECK_FALSE(compare(Floats{1e30f}, Doubles{kInf}, 1e30, 1).ok);
}
TEST_CASE("compare: a tolerance that is NaN accepts nothing but equality") {
  CHECK_FALSE(compare(Floats{1.f}, Doubles{2}, std::numeric_limits<double>::quiet_NaN(), 1).ok);
}
TEST_CASE("compare: sizes that differ fail") { CHECK_FALSE(compare(Floats{1}, Doubles{1, 2}, 1.0, 1).ok); }
TEST_CASE("compare_exact: one rounding is too much") {
  CHECK(compare_exact(Floats{0.1f}, Floats{0.1f}, 1).ok);
  CHECK_FALSE(compare_exact(Floats{0.1f}, Doubles{0.1}, 1).ok);
}
