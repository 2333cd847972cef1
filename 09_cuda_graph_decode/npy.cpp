#include "09_cuda_graph_decode/npy.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/error.hpp"

static_assert(sizeof(float) == 4, "the header says <f4: float must be 32-bit IEEE");

namespace {

constexpr std::size_t kHeaderBytes = 128;  // a multiple of 64, with room for any shape

// Always kHeaderBytes long, so that close() can write it again over the first one.
std::string npy_header(std::size_t rows, std::size_t cols) {
  std::string header("\x93NUMPY\x01\x00", 8);
  const std::size_t text_bytes = kHeaderBytes - header.size() - 2;
  header += static_cast<char>(text_bytes & 0xFF);
  header += static_cast<char>(text_bytes >> 8);
  header += fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  header.resize(kHeaderBytes - 1, ' ');
  return header + '\n';
}

}  // namespace

NpyWriter::NpyWriter(const std::string& path, std::size_t cols) : path_(path), cols_(cols) {
  file_.reset(std::fopen(path.c_str(), "wb"));
  if (!file_) throw BadInput(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  const std::string header = npy_header(0, cols);
  write(header.data(), header.size());
}

NpyWriter::~NpyWriter() {
  if (!file_) return;
  file_.reset();
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path_, ignored)) std::filesystem::remove(path_, ignored);
}

void NpyWriter::write(const void* bytes, std::size_t count) {
  if (std::fwrite(bytes, 1, count, file_.get()) != count) {
    throw EnvironmentError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
  }
}

void NpyWriter::row(const float* values) {
  write(values, cols_ * sizeof(float));
  ++rows_;
}

void NpyWriter::close() {
  const std::string header = npy_header(rows_, cols_);
  const bool rewound = std::fseek(file_.get(), 0, SEEK_SET) == 0;
  if (rewound) write(header.data(), header.size());
  if (!rewound || std::fflush(file_.get()) != 0) {
    throw EnvironmentError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
  }
  file_.reset();
}

void write_npy(const std::string& path, const float* values, std::size_t rows, std::size_t cols) {
  NpyWriter file(path, cols);
  for (std::size_t row = 0; row < rows; ++row) file.row(values + row * cols);
  file.close();
}
