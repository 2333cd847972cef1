// Under compute-sanitizer a kernel is a hundred times slower. `make gpu-check` sets THIN_TESTS there: every kernel still
// runs, on fewer sizes.
#pragma once
#include <cstdlib>
#include <vector>

#include "common/device.hpp"

inline bool thin_tests() { return std::getenv("THIN_TESTS") != nullptr; }

// Sizes that only a GPU has time for.
inline bool large_tests() { return device().gpu && !thin_tests(); }

// All of the list, or its first and last where tests are thinned.
template <class T>
std::vector<T> thinned(std::vector<T> all) {
  return thin_tests() && all.size() > 2 ? std::vector<T>{all.front(), all.back()} : all;
}
