// 09 · safetensors: a header in JSON, then the tensors' bytes, checked whole before anybody reads a weight
//
// Layout: 8 bytes length N (little-endian), N bytes JSON {name: {dtype, shape, data_offsets}}, then the data.
// Source: github.com/huggingface/safetensors, README and safetensors/src/tensor.rs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "09_cuda_graph_decode/config.hpp"

// One tensor inside a mapped file; valid as long as the SafetensorsFile or Checkpoint it came from.
struct TensorView {
  std::string dtype;                 // "BF16", "F32", … as in the file
  std::vector<std::uint64_t> shape;  // row-major; [] is a scalar
  const std::byte* data = nullptr;   // [bytes]; may have any alignment: copy, never cast to a wider type
  std::size_t bytes = 0;
};

// One .safetensors file, mapped read-only.
// The constructor throws BadInput (file, tensor, expected, found) on everything the reference implementation rejects,
// and on a tensor name that occurs twice. Order of tensors in the header, padding and alignment are free.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const TensorView* find(const std::string& name) const;  // nullptr where absent

  // Copies bytes [at, at + bytes) of one of its tensors to `to`; any number of threads at a time. It reads the file, not
  // the mapping: that saves a page fault every 4 KB, and a file that was cut short since is a BadInput, not a signal.
  void read(const TensorView& tensor, std::size_t at, std::size_t bytes, void* to) const;

 private:
  void parse();

  struct Handle {  // closes the file
    int number = -1;
    ~Handle();
  };
  std::string path_;
  Handle file_;
  const std::byte* map_ = nullptr;
  std::size_t size_ = 0;
  std::map<std::string, TensorView> tensors_;
};

// The tensors of a Hugging Face folder: the shards that model.safetensors.index.json names, else model.safetensors.
// Other .safetensors files in the folder are left alone. Throws BadInput for a missing folder or shard, an index that
// names a path outside the folder, a tensor that is not in the shard the index names or lies in two of them.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const TensorView* find(const std::string& name) const;  // nullptr where absent
  const TensorView& get(const std::string& name) const;   // throws BadInput where absent
  void read(const std::string& name, std::size_t at, std::size_t bytes, void* to) const;  // as SafetensorsFile::read
  const std::string& file_of(const std::string& name) const;
  std::vector<std::string> names() const;  // sorted

 private:
  void add_shards_of_index(const std::string& index_path);

  struct Place {
    const TensorView* tensor;
    const SafetensorsFile* file;
  };
  std::string folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Place> places_;
};

struct ExpectedTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
};

// Every tensor a model of this shape must have, in the order of the forward pass. A Linear's weight is [out, in].
// lm_head.weight is in the list only where the embedding is not tied.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

// Holds a checkpoint against a config before anything is loaded: every expected tensor is there, in BF16 or F32, with
// the expected shape, and no other tensor of the decoder exists (a bias or a layer that would be dropped in silence).
// A tied model may store lm_head.weight too; it is not used. Throws BadInput (file, tensor, expected, found).
void check_checkpoint(const Checkpoint& checkpoint, const ModelConfig& config);
