#include "env_check/test_harness.hpp"

#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

namespace test_harness {
namespace {
struct Case {
  const char* name;
  Body body;
};
std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
std::vector<std::string> infos;
int assertions = 0, failures = 0;
}  // namespace

Registered::Registered(const char* name, Body body) { cases().push_back({name, body}); }

void count(bool ok, const char* text, const char* file, int line) {
  ++assertions;
  if (ok) return;
  ++failures;
  std::printf("%s:%d: failed: %s\n", file, line, text);
  for (const std::string& info : infos) std::printf("  with: %s\n", info.c_str());
}

Info::Info(const std::string& text) { infos.push_back(text); }
Info::~Info() { infos.pop_back(); }

}  // namespace test_harness

// PROGRAM [PART OF A NAME]: runs the test cases whose name holds that part. Exit status 1 if one failed or none ran.
int main(int argc, char** argv) {
  using namespace test_harness;
  int ran = 0, failed = 0;
  for (const Case& test : cases()) {
    if (argc > 1 && !std::strstr(test.name, argv[1])) continue;
    ++ran;
    const int failures_before = failures, assertions_before = assertions;
    try {
      test.body();
    } catch (const Stop&) {
    } catch (const std::exception& e) {
      count(false, e.what(), test.name, 0);
    }
    if (assertions == assertions_before) count(false, "a test case must assert something", test.name, 0);
    if (failures == failures_before) continue;
    ++failed;
    std::printf("in the test case: %s\n", test.name);
  }
  if (ran == 0)
    std::puts("No tests ran");
  else if (failed == 0)
    std::printf("All tests passed (%d assertions in %d test cases)\n", assertions, ran);
  else
    std::printf("test cases: %d | %d passed | %d failed\n", ran, ran - failed, failed);
  return ran == 0 || failed > 0;
}
