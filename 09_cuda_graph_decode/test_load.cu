// The threads that bring a checkpoint into device memory: every byte in its place, whatever the pieces.
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

#include "09_cuda_graph_decode/load_tensors.cuh"
#include "09_cuda_graph_decode/test_files.hpp"

namespace {

// Two bfloat16 tensors and one of F32, all at odd addresses of the file: the header has an odd length.
struct File {
  static constexpr size_t kCounts[3] = {1000, 37, 513};
  ScratchFolder folder;
  std::vector<uint16_t> want;  // bits of all elements as bfloat16, tensor after tensor

  File() {
    std::string header = "{", data;
    for (int t = 0; t < 3; ++t) {
      const size_t begin = data.size();
      for (size_t i = 0; i < kCounts[t]; ++i) {
        const float value = 0.37f * float(i) - 5.f * float(t + 1);
        const bfloat16 rounded = __float2bfloat16(value);
        uint16_t bits;
        std::memcpy(&bits, &rounded, 2);
        want.push_back(bits);
        t == 2 ? data.append(reinterpret_cast<const char*>(&value), 4)
               : data.append(reinterpret_cast<const char*>(&bits), 2);
      }
      header += fmt::format("{}\"t{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", t ? "," : "", t,
                            t == 2 ? "F32" : "BF16", kCounts[t], begin, data.size());
    }
    header += "}";
    if (header.size() % 2 == 0) header += " ";
    folder.write("model.safetensors", safetensors_bytes(header, data));
  }
};

std::vector<uint16_t> loaded(const File& file, const Checkpoint& checkpoint, const LoadOptions& options) {
  DeviceBuffer<bfloat16> arena(file.want.size());
  std::vector<TensorPlace> places;
  size_t at = 0;
  for (int t = 0; t < 3; ++t) {
    places.push_back({fmt::format("t{}", t), arena.data() + at, File::kCounts[t]});
    at += File::kCounts[t];
  }
  load_tensors(checkpoint, places, options);
  std::vector<uint16_t> bits(arena.size());
  const std::vector<bfloat16> values = arena.to_host();
  std::memcpy(bits.data(), values.data(), arena.bytes());
  return bits;
}

}  // namespace

TEST_CASE("09 load: every tensor in its place, F32 rounded, for any number of threads and size of a piece", "[load]") {
  const File file;
  const Checkpoint checkpoint(file.folder.path());
  for (const int threads : {0, 1, 3, 16})
    for (const size_t piece : {size_t(1), size_t(64), size_t(999), size_t(1) << 20}) {
      INFO(threads << " threads, pieces of " << piece);
      CHECK(loaded(file, checkpoint, {threads, piece}) == file.want);
    }
}

TEST_CASE("09 load: a file cut short after it was opened is one clear error", "[load]") {
  const File file;
  const std::string path = file.folder.path() + "/model.safetensors";
  const Checkpoint checkpoint(file.folder.path());
  REQUIRE(::truncate(path.c_str(), 1500) == 0);
  expect_refusal([&] { loaded(file, checkpoint, {4, 100}); }, {path, "cut short"});
}
