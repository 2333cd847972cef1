// 09 · for tests of this folder: files that live as long as a test, and the one line that bad input must give
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

#include "common/catch.hpp"
#include "common/error.hpp"

// An empty folder, removed with everything in it at the end of the scope.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "step09_test_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

  // The path of a file in the folder, now with these bytes.
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string file = path_ + "/" + name;
    std::ofstream out(file, std::ios::binary);
    out << bytes;
    REQUIRE(out.good());
    return file;
  }

 private:
  std::string path_;
};

// `action` must throw BadInput with one line that holds every one of `parts`.
template <typename Action>
void expect_refusal(const Action& action, std::initializer_list<std::string> parts) {
  std::string message;
  bool refused = false;
  try {
    action();
  } catch (const BadInput& error) {
    refused = true;
    message = error.what();
  }
  INFO("message: " << message);
  CHECK(refused);
  CHECK(message.find('\n') == std::string::npos);
  for (const std::string& part : parts) {
    INFO("expected in it: " << part);
    CHECK(message.find(part) != std::string::npos);
  }
}

// The bytes of a safetensors file with this header and data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data = "") {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i) & 0xFF);
  return bytes + header + data;
}
