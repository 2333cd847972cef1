// 09 · logits for other programs: a float32 matrix in NumPy's .npy format, version 1.0
//
// Source: numpy.org, numpy.lib.format. numpy.load("logits.npy") gives an array [rows, cols].
#pragma once
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

// Writes rows as they come; the header gets the number of rows in close().
class NpyWriter {
 public:
  // Creates or empties the file. Throws BadInput when it cannot be created.
  NpyWriter(const std::string& path, std::size_t cols);
  // Without close() the file is removed: half a result must not look like a whole one.
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  void row(const float* values);  // [cols]; throws EnvironmentError when it cannot be written
  void close();                   // throws EnvironmentError when the last bytes cannot be written

  std::size_t rows() const { return rows_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write(const void* bytes, std::size_t count);

  std::string path_;
  std::size_t cols_, rows_ = 0;
  std::unique_ptr<std::FILE, Close> file_;
};

// The whole matrix at once; same errors.
void write_npy(const std::string& path,
               const float* values,  // [rows, cols]
               std::size_t rows, std::size_t cols);
