#include "09_cuda_graph_decode/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "09_cuda_graph_decode/json_file.hpp"
#include "09_cuda_graph_decode/utf8.hpp"
#include "common/error.hpp"

using nlohmann::json;

namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;

// Bits of one element, for each dtype name of the format.
const std::unordered_map<std::string, unsigned>& dtype_bits() {
  static const std::unordered_map<std::string, unsigned> bits = {
      {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},   {"I8", 8},
      {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"I16", 16}, {"F8_E5M2FNUZ", 8},
      {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32}, {"F32", 32},
      {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}};
  return bits;
}

[[noreturn]] void refuse(const std::string& file, const std::string& thing, const std::string& expected,
                         const std::string& found) {
  throw BadInput(fmt::format("{}: {}: expected {}, found {}", file, thing, expected, found));
}

std::string shape_text(const std::vector<std::uint64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

struct Entry {
  std::string name;
  TensorView view;
  std::uint64_t begin, end;  // relative to the first data byte
};

std::vector<std::uint64_t> read_numbers(const json& tensor, const char* key, const std::string& file,
                                        const std::string& name) {
  const auto it = tensor.find(key);
  const std::string thing = fmt::format("tensor {}: {}", quote_name(name), key);
  if (it == tensor.end()) refuse(file, thing, "a list of whole numbers", "nothing");
  if (!it->is_array()) refuse(file, thing, "a list of whole numbers", shown(*it));
  std::vector<std::uint64_t> numbers;
  for (const json& number : *it) {
    if (!number.is_number_unsigned()) refuse(file, thing, "whole numbers from 0", shown(number));
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

Entry read_entry(const std::string& name, const json& tensor, const std::string& file) {
  if (!tensor.is_object()) {
    refuse(file, "tensor " + quote_name(name), "an object with dtype, shape and data_offsets", shown(tensor));
  }
  Entry entry{name, {}, 0, 0};
  const json dtype = tensor.value("dtype", json());
  if (!dtype.is_string() || dtype_bits().count(dtype.get<std::string>()) == 0) {
    refuse(file, fmt::format("tensor {}: dtype", quote_name(name)), "a dtype of the format such as \"BF16\"",
           dtype.is_null() ? "nothing" : shown(dtype));
  }
  entry.view.dtype = dtype.get<std::string>();
  entry.view.shape = read_numbers(tensor, "shape", file, name);
  const std::vector<std::uint64_t> offsets = read_numbers(tensor, "data_offsets", file, name);
  if (offsets.size() != 2) {
    refuse(file, fmt::format("tensor {}: data_offsets", quote_name(name)), "[begin, end]",
           fmt::format("{} numbers", offsets.size()));
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  return entry;
}

void read_metadata(const json& metadata, const std::string& file) {
  if (metadata.is_null()) return;
  if (!metadata.is_object()) refuse(file, "__metadata__", "an object of strings", shown(metadata));
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) refuse(file, "__metadata__: " + quote_name(key), "a string", shown(value));
  }
}

// The size its dtype and shape give, against the bytes its offsets give.
void check_size(const Entry& entry, const std::string& file) {
  const std::string thing = "tensor " + quote_name(entry.name);
  const unsigned element_bits = dtype_bits().at(entry.view.dtype);
  std::uint64_t elements = 1, bits = 0;
  bool overflow = false;
  for (const std::uint64_t dim : entry.view.shape) overflow |= __builtin_mul_overflow(elements, dim, &elements);
  overflow |= __builtin_mul_overflow(elements, std::uint64_t{element_bits}, &bits);
  if (overflow) refuse(file, thing, "a size that fits 64 bits", "shape " + shape_text(entry.view.shape));
  if (bits % 8 != 0) {
    refuse(file, thing, "a whole number of bytes", fmt::format("{} elements of {} bits", elements, element_bits));
  }
  if (entry.end - entry.begin != bits / 8) {
    refuse(file, thing, fmt::format("{} bytes for {} {}", bits / 8, entry.view.dtype, shape_text(entry.view.shape)),
           fmt::format("data_offsets [{}, {}], {} bytes", entry.begin, entry.end, entry.end - entry.begin));
  }
}

}  // namespace

SafetensorsFile::Handle::~Handle() {
  if (number >= 0) ::close(number);
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  file_.number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_.number < 0) throw BadInput(fmt::format("{}: expected a safetensors file: {}", path, std::strerror(errno)));
  struct stat status {};
  const bool known = ::fstat(file_.number, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    throw BadInput(fmt::format("{}: expected a safetensors file, found no regular file", path));
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ < kLengthBytes) {
    refuse(path, "header length", "8 bytes", fmt::format("a file of {} bytes", size_));
  }
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file_.number, 0);
  if (map == MAP_FAILED) throw EnvironmentError(fmt::format("{}: cannot be mapped: {}", path, std::strerror(errno)));
  map_ = static_cast<const std::byte*>(map);
  try {
    parse();
  } catch (...) {
    ::munmap(map, size_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::munmap(const_cast<std::byte*>(map_), size_); }

void SafetensorsFile::read(const TensorView& tensor, std::size_t at, std::size_t bytes, void* to) const {
  std::size_t done = 0;
  while (done < bytes) {
    const auto from = static_cast<off_t>(static_cast<std::size_t>(tensor.data - map_) + at + done);
    const ssize_t got = ::pread(file_.number, static_cast<std::byte*>(to) + done, bytes - done, from);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw EnvironmentError(fmt::format("{}: cannot be read: {}", path_, std::strerror(errno)));
    if (got == 0) refuse(path_, "data", fmt::format("{} bytes as before", size_), "a file that was cut short since");
    done += static_cast<std::size_t>(got);
  }
}

void SafetensorsFile::parse() {
  std::uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i) header_bytes = header_bytes << 8 | std::to_integer<std::uint64_t>(map_[i]);
  if (header_bytes > kLongestHeader) {
    refuse(path_, "header length", fmt::format("at most {} bytes", kLongestHeader), fmt::format("{}", header_bytes));
  }
  if (header_bytes > size_ - kLengthBytes) {
    refuse(path_, "header length", fmt::format("at most the {} bytes that follow it", size_ - kLengthBytes),
           fmt::format("{}", header_bytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(map_) + kLengthBytes, header_bytes);
  if (!is_valid_utf8(text)) refuse(path_, "header", "UTF-8", "other bytes");
  const json header = parse_json(text, path_ + ": header");
  if (!header.is_object()) refuse(path_, "header", "a JSON object", header.type_name());

  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      read_metadata(value, path_);
    } else {
      entries.push_back(read_entry(name, value, path_));
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });

  // Back to back from the first byte to the last: no gap to hide anything in, no byte that two tensors share.
  const std::uint64_t data_bytes = size_ - kLengthBytes - header_bytes;
  std::uint64_t next = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != next || entry.end < entry.begin) {
      refuse(path_, fmt::format("tensor {}: data_offsets", quote_name(entry.name)),
             fmt::format("to begin at {} where the one before ends", next),
             fmt::format("[{}, {}]", entry.begin, entry.end));
    }
    check_size(entry, path_);
    next = entry.end;
  }
  if (next != data_bytes) {
    refuse(path_, "data", fmt::format("{} bytes as the header says", next),
           fmt::format("{} ({})", data_bytes,
                       data_bytes < next ? "the file is cut short" : "something follows the tensors"));
  }
  for (Entry& entry : entries) {
    entry.view.data = map_ + kLengthBytes + header_bytes + entry.begin;
    entry.view.bytes = entry.end - entry.begin;
    tensors_.emplace(entry.name, std::move(entry.view));
  }
}

const TensorView* SafetensorsFile::find(const std::string& name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

Checkpoint::Checkpoint(const std::string& folder) : folder_(folder) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(folder)) {
    throw BadInput(
        fmt::format("{}: expected a model folder, found {}", folder, fs::exists(folder) ? "a file" : "nothing"));
  }
  const std::string index = folder + "/model.safetensors.index.json";
  if (fs::exists(index)) {
    add_shards_of_index(index);
    return;
  }
  const std::string single = folder + "/model.safetensors";
  if (!fs::exists(single)) {
    throw BadInput(
        fmt::format("{}: expected model.safetensors or model.safetensors.index.json, found neither", folder));
  }
  files_.push_back(std::make_unique<SafetensorsFile>(single));
  for (const auto& [name, view] : files_.back()->tensors()) places_[name] = {&view, files_.back().get()};
}

void Checkpoint::add_shards_of_index(const std::string& index_path) {
  const json index = read_json_object(index_path);
  const auto weight_map = index.find("weight_map");
  if (weight_map == index.end() || !weight_map->is_object()) {
    refuse(index_path, "weight_map", "an object of tensor: file",
           weight_map == index.end() ? "nothing" : shown(*weight_map));
  }
  std::map<std::string, std::string> shard_of;
  std::set<std::string> shards;
  for (const auto& [name, file] : weight_map->items()) {
    const std::string thing = fmt::format("weight_map: tensor {}", quote_name(name));
    if (!file.is_string()) refuse(index_path, thing, "a file name", shown(file));
    const std::string shard = file.get<std::string>();
    const bool plain =
        shard.find_first_of(std::string("/\\\0", 3)) == std::string::npos && shard != "." && shard != "..";
    if (!plain || shard.empty()) refuse(index_path, thing, "a file name inside the folder", quote_name(shard));
    shard_of[name] = shard;
    shards.insert(shard);
  }
  std::map<std::string, const SafetensorsFile*> opened;
  for (const std::string& shard : shards) {
    const std::string path = folder_ + "/" + shard;
    if (!std::filesystem::exists(path)) refuse(index_path, "weight_map", "a file " + quote_name(shard), "nothing");
    files_.push_back(std::make_unique<SafetensorsFile>(path));
    opened[shard] = files_.back().get();
  }
  for (const auto& [name, shard] : shard_of) {
    const TensorView* view = opened.at(shard)->find(name);
    std::string elsewhere;
    for (const auto& [other, file] : opened) {
      if (other != shard && file->find(name)) elsewhere = other;
    }
    const std::string thing = fmt::format("weight_map: tensor {}", quote_name(name));
    if (!view) {
      refuse(index_path, thing, "it in " + quote_name(shard),
             elsewhere.empty() ? "it in no shard" : "it in " + quote_name(elsewhere));
    }
    if (!elsewhere.empty())
      refuse(index_path, thing, "one copy", fmt::format("it in {} and {}", quote_name(shard), quote_name(elsewhere)));
    places_[name] = {view, opened.at(shard)};
  }
}

const TensorView* Checkpoint::find(const std::string& name) const {
  const auto it = places_.find(name);
  return it == places_.end() ? nullptr : it->second.tensor;
}

const TensorView& Checkpoint::get(const std::string& name) const {
  const TensorView* view = find(name);
  if (!view) refuse(folder_, "tensor " + quote_name(name), "it in the checkpoint", "nothing");
  return *view;
}

void Checkpoint::read(const std::string& name, std::size_t at, std::size_t bytes, void* to) const {
  places_.at(name).file->read(*places_.at(name).tensor, at, bytes, to);
}

const std::string& Checkpoint::file_of(const std::string& name) const {
  const auto it = places_.find(name);
  return it == places_.end() ? folder_ : it->second.file->path();
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& place : places_) names.push_back(place.first);
  return names;
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  const auto hidden = static_cast<std::uint64_t>(config.hidden), vocab = static_cast<std::uint64_t>(config.vocab),
             q = static_cast<std::uint64_t>(config.q_width()), kv = static_cast<std::uint64_t>(config.kv_width()),
             head_dim = static_cast<std::uint64_t>(config.head_dim),
             intermediate = static_cast<std::uint64_t>(config.intermediate);
  std::vector<ExpectedTensor> list;
  list.push_back({"model.embed_tokens.weight", {vocab, hidden}});
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const auto add = [&](const char* name, std::vector<std::uint64_t> shape) {
      list.push_back({prefix + name, std::move(shape)});
    };
    add("input_layernorm.weight", {hidden});
    add("self_attn.q_proj.weight", {q, hidden});
    add("self_attn.k_proj.weight", {kv, hidden});
    add("self_attn.v_proj.weight", {kv, hidden});
    if (config.qkv_bias) {
      add("self_attn.q_proj.bias", {q});
      add("self_attn.k_proj.bias", {kv});
      add("self_attn.v_proj.bias", {kv});
    }
    if (config.qk_norm) {
      add("self_attn.q_norm.weight", {head_dim});
      add("self_attn.k_norm.weight", {head_dim});
    }
    add("self_attn.o_proj.weight", {hidden, q});
    add("post_attention_layernorm.weight", {hidden});
    add("mlp.gate_proj.weight", {intermediate, hidden});
    add("mlp.up_proj.weight", {intermediate, hidden});
    add("mlp.down_proj.weight", {hidden, intermediate});
  }
  list.push_back({"model.norm.weight", {hidden}});
  if (!config.tied) list.push_back({"lm_head.weight", {vocab, hidden}});
  return list;
}

void check_checkpoint(const Checkpoint& checkpoint, const ModelConfig& config) {
  std::set<std::string> expected_names;
  for (const ExpectedTensor& expected : expected_tensors(config)) {
    expected_names.insert(expected.name);
    const TensorView* found = checkpoint.find(expected.name);
    const std::string file = checkpoint.file_of(expected.name), thing = "tensor " + quote_name(expected.name);
    if (!found) refuse(file, thing, shape_text(expected.shape), "nothing");
    if (found->dtype != "BF16" && found->dtype != "F32") refuse(file, thing, "dtype BF16 or F32", found->dtype);
    if (found->shape != expected.shape) refuse(file, thing, shape_text(expected.shape), shape_text(found->shape));
  }
  for (const std::string& name : checkpoint.names()) {
    // Buffers that old files store beside the weights; RoPE computes them from rope_theta.
    const std::string buffer = "rotary_emb.inv_freq";
    const bool is_buffer =
        name.size() >= buffer.size() && name.compare(name.size() - buffer.size(), buffer.size(), buffer) == 0;
    if (name.compare(0, 6, "model.") == 0 && expected_names.count(name) == 0 && !is_buffer) {
      refuse(checkpoint.file_of(name), "tensor " + quote_name(name),
             fmt::format("no such tensor in a {} of {} layers", family_name(config.family), config.layers), "it");
    }
  }
}
