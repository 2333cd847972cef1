// The main of every test program: tests for the GPU are skipped, with the reason, where there is none.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif
#include <cstdio>
#include <string>

#include "common/error.hpp"

// Set by the programs that need a device (common/gpu_test.cu); empty: nothing is in the way.
std::string (*why_tests_cannot_run)() = nullptr;

int main(int argc, char** argv) {
  if (why_tests_cannot_run) {
    const std::string reason = why_tests_cannot_run();
    if (!reason.empty()) {
      std::printf("skipped: %s\n", reason.c_str());
      return kNothingRan;
    }
  }
  Catch::Session session;
  session.configData().warnings = Catch::WarnAbout::NoAssertions;  // a test case that asserts nothing fails
  return session.run(argc, argv);
}
