#include "09_cuda_graph_decode/test_files.hpp"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

ScratchFolder::ScratchFolder() {
  path_ = (std::filesystem::temp_directory_path() / "step09_test_XXXXXX").string();
  REQUIRE(::mkdtemp(path_.data()) != nullptr);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::write(const std::string& name, const std::string& bytes) const {
  const std::string file = path_ + "/" + name;
  std::ofstream out(file, std::ios::binary);
  out << bytes;
  REQUIRE(out.good());
  return file;
}

std::string safetensors_bytes(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i) & 0xFF);
  return bytes + header + data;
}
