// Replays what the fuzzer found worth keeping: nothing may crash, throw or take long.
#include <algorithm>
#include <chrono>
#include <vector>

#include "env_check/fuzz.hpp"
#include "env_check/test_harness.hpp"
#include "env_check/test_support.hpp"

TEST_CASE("env_check: the fuzzer's corpus is read without a crash, an exception or a wait") {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(ENV_CHECK_CORPUS)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  CHECK(files.size() >= 20);
  for (const auto& file : files) {
    INFO(file.filename().string());
    std::ifstream in(file, std::ios::binary);
    const auto start = std::chrono::steady_clock::now();
    env_check::fuzz_one({std::istreambuf_iterator<char>(in), {}});
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  }
}
