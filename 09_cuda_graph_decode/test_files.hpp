// 09 · for tests of this folder: files that live as long as a test, and the one line that bad input must give
#pragma once
#include <initializer_list>
#include <string>

#include "common/catch.hpp"
#include "common/error.hpp"

// An empty folder, removed with everything in it at the end of the scope. It is defined in a file of its own: nvcc 13.0
// does not come to an end of std::filesystem in such a class with the headers of g++ 13.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

  // The path of a file in the folder, now with these bytes.
  std::string write(const std::string& name, const std::string& bytes) const;

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
std::string safetensors_bytes(const std::string& header, const std::string& data = "");
