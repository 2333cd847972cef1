// The few macros these tests need, with Catch2's names and its closing line. env_check must be testable where only a
// compiler, fmt and a JSON library are, so it brings them itself.
#pragma once
#include <sstream>
#include <string>

namespace test_harness {

using Body = void (*)();
struct Registered {
  Registered(const char* name, Body body);
};

// Counts one assertion; a failed one is printed with everything INFO says around it.
void count(bool ok, const char* text, const char* file, int line);
struct Stop {};  // thrown by REQUIRE

struct Info {
  explicit Info(const std::string& text);
  ~Info();
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;
};

}  // namespace test_harness

#define HARNESS_JOIN_(a, b) a##b
#define HARNESS_JOIN(a, b) HARNESS_JOIN_(a, b)
#define TEST_CASE(name)                                                                                                \
  static void HARNESS_JOIN(test_case_, __LINE__)();                                                                    \
  static const test_harness::Registered HARNESS_JOIN(registered_, __LINE__)(name, HARNESS_JOIN(test_case_, __LINE__)); \
  static void HARNESS_JOIN(test_case_, __LINE__)()
#define CHECK(...) test_harness::count(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
#define CHECK_FALSE(...) test_harness::count(!static_cast<bool>(__VA_ARGS__), "not: " #__VA_ARGS__, __FILE__, __LINE__)
#define REQUIRE(...)                                                   \
  do {                                                                 \
    const bool harness_ok = static_cast<bool>(__VA_ARGS__);            \
    test_harness::count(harness_ok, #__VA_ARGS__, __FILE__, __LINE__); \
    if (!harness_ok) throw test_harness::Stop();                       \
  } while (false)
#define INFO(stream) const test_harness::Info HARNESS_JOIN(info_, __LINE__)((std::ostringstream() << stream).str())
