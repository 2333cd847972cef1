// Linked into every test program that runs kernels: lets common/catch_main.cpp skip them where there is no device.
#include "common/device.hpp"

extern std::string (*why_tests_cannot_run)();

namespace {
[[maybe_unused]] const bool registered = [] {
  why_tests_cannot_run = why_no_device;
  return true;
}();
}  // namespace
