// Catch2 2.13 and 3.x both work: this header picks the one that is installed.
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
namespace Catch::Matchers {
inline auto ContainsSubstring(const std::string& part) { return Contains(part); }  // 3.x's name of it
}  // namespace Catch::Matchers
#endif
