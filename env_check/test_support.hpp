// What several tests share: a folder of files that is gone afterwards, and short names for device code.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "env_check/facts.hpp"

struct TemporaryFolder {
  std::filesystem::path path;
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "env_check_XXXXXX").string();
    if (mkdtemp(name.data())) path = name;
  }
  ~TemporaryFolder() {
    std::error_code error;
    if (!path.empty()) std::filesystem::remove_all(path, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path.string() + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
    return file.string();
  }
  std::string program(const std::string& name, const std::string& script) const {
    const std::string file = write(name, "#!/bin/sh\n" + script);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
};

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline env_check::DeviceCode cubin(int arch, const char* suffix = "") { return {"cubin", arch, suffix, 0, 0, 1}; }
inline env_check::DeviceCode ptx(int arch, int major, int minor, const char* suffix = "") {
  return {"ptx", arch, suffix, major, minor, 1};
}
