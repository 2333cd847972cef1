// safetensors files and checkpoints: every malformed file of the format's own rules gives one line and no tensor.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "09_cuda_graph_decode/safetensors.hpp"
#include "09_cuda_graph_decode/test_files.hpp"

using nlohmann::json;

namespace {

void expect_refused(const std::string& bytes, std::initializer_list<std::string> parts) {
  const ScratchFolder folder;
  const std::string path = folder.write("model.safetensors", bytes);
  INFO("header: " << bytes.substr(std::min<size_t>(8, bytes.size()), 200));
  expect_refusal([&] { SafetensorsFile file(path); }, {path});
  expect_refusal([&] { SafetensorsFile file(path); }, parts);
}

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes = safetensors_bytes("", rest);
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i) & 0xFF);
  return bytes;
}

// One I32 tensor [2, 2] called "a" unless told otherwise.
std::string one_tensor(const std::string& shape = "[2,2]", const std::string& offsets = "[0,16]",
                       const std::string& dtype = "I32") {
  return fmt::format(R"({{"a":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
}

const std::string kData16(16, 'x');

ModelConfig small_config(ModelConfig::Family family = ModelConfig::Family::kQwen3) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.hidden = 8;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 6;
  config.intermediate = 5;
  config.vocab = 11;
  config.max_position = 32;
  config.rms_eps = 1e-6;
  config.rope_theta = 1e4;
  config.tied = true;
  config.qkv_bias = family == ModelConfig::Family::kQwen2;
  config.qk_norm = family == ModelConfig::Family::kQwen3;
  return config;
}

struct Tensor {
  std::string name, dtype;
  std::vector<std::uint64_t> shape;
};

// A file that holds these tensors; byte k of the data is k mod 251.
std::string file_of(const std::vector<Tensor>& tensors) {
  json header = json::object();
  std::uint64_t at = 0;
  for (const Tensor& tensor : tensors) {
    std::uint64_t bytes = tensor.dtype == "F32" || tensor.dtype == "I32" ? 4 : 2;
    for (const std::uint64_t dim : tensor.shape) bytes *= dim;
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string data;
  for (std::uint64_t k = 0; k < at; ++k) data += static_cast<char>(k % 251);
  return safetensors_bytes(header.dump(), data);
}

std::vector<Tensor> tensors_of(const ModelConfig& config) {
  std::vector<Tensor> tensors;
  for (const ExpectedTensor& expected : expected_tensors(config))
    tensors.push_back({expected.name, "BF16", expected.shape});
  return tensors;
}

// Checks a checkpoint made of these tensors against the config.
void check(const std::vector<Tensor>& tensors, const ModelConfig& config) {
  const ScratchFolder folder;
  folder.write("model.safetensors", file_of(tensors));
  check_checkpoint(Checkpoint(folder.path()), config);
}

Tensor& named(std::vector<Tensor>& tensors, const std::string& name) {
  const auto it = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
  REQUIRE(it != tensors.end());
  return *it;
}

void remove(std::vector<Tensor>& tensors, const std::string& name) {
  tensors.erase(tensors.begin() + (&named(tensors, name) - tensors.data()));
}

}  // namespace

TEST_CASE("safetensors: a file is read as it was written") {
  const ScratchFolder folder;
  const std::string path = folder.write("x.safetensors", file_of({{"b", "F32", {2, 3}}, {"a", "BF16", {5}}}));
  const SafetensorsFile file(path);
  REQUIRE(file.tensors().size() == 2);
  const TensorView* b = file.find("b");
  REQUIRE(b != nullptr);
  CHECK(b->dtype == "F32");
  CHECK(b->shape == std::vector<std::uint64_t>{2, 3});
  CHECK(b->bytes == 24);
  const TensorView* a = file.find("a");
  REQUIRE(a != nullptr);
  CHECK(a->bytes == 10);
  CHECK(std::to_integer<int>(a->data[0]) == 24);
  CHECK(std::to_integer<int>(a->data[9]) == 33);
  CHECK(file.find("c") == nullptr);
}

TEST_CASE("safetensors: order, padding, metadata, extra keys and alignment are free") {
  const ScratchFolder folder;
  const std::string header =
      R"(  {"__metadata__":{"format":"pt"},"z":{"data_offsets":[3,5],"note":1,"shape":[1],"dtype":"BF16"},)"
      R"("u":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}   )";
  const SafetensorsFile file(folder.write("x.safetensors", safetensors_bytes(header, "abcde")));
  REQUIRE(file.tensors().size() == 2);
  CHECK(std::memcmp(file.find("z")->data, "de", 2) == 0);
  CHECK(std::memcmp(file.find("u")->data, "abc", 3) == 0);
}

TEST_CASE("safetensors: no tensor, a scalar, an empty tensor and sub-byte types are valid") {
  const ScratchFolder folder;
  CHECK(SafetensorsFile(folder.write("none", safetensors_bytes("{}"))).tensors().empty());
  const SafetensorsFile scalar(folder.write("scalar", safetensors_bytes(one_tensor("[]", "[0,4]"), "abcd")));
  CHECK(scalar.find("a")->shape.empty());
  CHECK(scalar.find("a")->bytes == 4);
  const SafetensorsFile empty(folder.write("empty", safetensors_bytes(one_tensor("[2,0]", "[0,0]"))));
  CHECK(empty.find("a")->bytes == 0);
  const SafetensorsFile half(folder.write("half", safetensors_bytes(one_tensor("[4]", "[0,2]", "F4"), "ab")));
  CHECK(half.find("a")->bytes == 2);
  const SafetensorsFile null(folder.write("null", safetensors_bytes(R"({"__metadata__":null})")));
  CHECK(null.tensors().empty());
}

TEST_CASE("safetensors: missing file, folder in its place") {
  const ScratchFolder folder;
  expect_refusal([&] { SafetensorsFile file(folder.path() + "/none"); }, {"/none", "No such file"});
  expect_refusal([&] { SafetensorsFile file(folder.path()); }, {folder.path(), "no regular file"});
}

TEST_CASE("safetensors rule 1: fewer than 8 bytes") {
  expect_refused("", {"header length", "8 bytes", "0 bytes"});
  expect_refused(std::string(7, '\0'), {"header length", "7 bytes"});
}

TEST_CASE("safetensors rule 2: a header of more than 100 MB") {
  expect_refused(with_length(100'000'001, "{}"), {"header length", "100000000", "found 100000001"});
  expect_refused(with_length(~std::uint64_t{0}, "{}"), {"header length", "found 18446744073709551615"});
}

TEST_CASE("safetensors rule 3: a header that reaches beyond the file") {
  expect_refused(with_length(60, ""), {"header length", "0 bytes", "found 60"});
  expect_refused(with_length(1000, one_tensor() + kData16), {"header length", "found 1000"});
}

TEST_CASE("safetensors rule 4: a header that is not UTF-8") {
  expect_refused(safetensors_bytes("\xFF"), {"header", "UTF-8"});
  expect_refused(safetensors_bytes("{\"\xC3\":1}"), {"header", "UTF-8"});
}

TEST_CASE("safetensors rule 5: a header that is not the JSON of the format") {
  expect_refused(safetensors_bytes(""), {"header", "JSON"});
  expect_refused(safetensors_bytes("{"), {"header", "expected JSON", "byte"});
  expect_refused(safetensors_bytes("{}x"), {"header", "expected JSON"});
  expect_refused(safetensors_bytes(std::string("{}\0", 3)), {"header", "NUL byte"});
  expect_refused(safetensors_bytes("[]"), {"header", "JSON object", "array"});
  expect_refused(safetensors_bytes("\xEF\xBB\xBF{}"), {"header", "byte-order mark"});
  expect_refused(safetensors_bytes(R"({"a":5})"), {"tensor \"a\"", "found 5"});
  expect_refused(safetensors_bytes(one_tensor("[2,2]", "[0,16]", "I33"), kData16), {"tensor \"a\": dtype", "\"I33\""});
  expect_refused(safetensors_bytes(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", "x"),
                 {"tensor \"a\": dtype", "found nothing"});
  expect_refused(safetensors_bytes(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "x"),
                 {"tensor \"a\": shape", "found nothing"});
  expect_refused(safetensors_bytes(R"({"a":{"dtype":"U8","shape":[1]}})", "x"),
                 {"tensor \"a\": data_offsets", "found nothing"});
  expect_refused(safetensors_bytes(one_tensor("[-2,2]"), kData16), {"tensor \"a\": shape", "found -2"});
  expect_refused(safetensors_bytes(one_tensor("[2.0,2]"), kData16), {"tensor \"a\": shape", "found 2.0"});
  expect_refused(safetensors_bytes(one_tensor("[\"2\",2]"), kData16), {"tensor \"a\": shape", "found \"2\""});
  expect_refused(safetensors_bytes(one_tensor("4"), kData16), {"tensor \"a\": shape", "found 4"});
  expect_refused(safetensors_bytes(one_tensor("[4]", "[0]"), kData16), {"tensor \"a\": data_offsets", "1 numbers"});
  expect_refused(safetensors_bytes(one_tensor("[4]", "[0,16,16]"), kData16), {"data_offsets", "3 numbers"});
  expect_refused(safetensors_bytes(one_tensor("[4]", "[0,1.6e1]"), kData16), {"data_offsets", "found 16.0"});
  expect_refused(safetensors_bytes(R"({"__metadata__":{"format":1}})"), {"__metadata__", "a string", "found 1"});
  expect_refused(safetensors_bytes(R"({"__metadata__":"pt"})"), {"__metadata__", "found \"pt\""});
  expect_refused(safetensors_bytes(std::string(200, '[')), {"header", "levels"});
}

TEST_CASE("safetensors rule 6: a gap, an overlap, an end before its begin") {
  expect_refused(safetensors_bytes(one_tensor("[3]", "[4,16]"), kData16),
                 {"tensor \"a\": data_offsets", "begin at 0", "[4, 16]"});
  const std::string two = R"({{"a":{{"dtype":"U8","shape":[8],"data_offsets":[0,8]}},)"
                          R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},16]}}}})";
  expect_refused(safetensors_bytes(fmt::format(fmt::runtime(two), 7, 9), kData16),
                 {"tensor \"b\"", "begin at 8", "[9, 16]"});
  expect_refused(safetensors_bytes(fmt::format(fmt::runtime(two), 9, 7), kData16),
                 {"tensor \"b\"", "begin at 8", "[7, 16]"});
  expect_refused(safetensors_bytes(one_tensor("[4]",
                                              "[0,16],\"x\":0},\"b\":{\"dtype\":\"I32\",\"shape\":[4],"
                                              "\"data_offsets\":[0,16]"),
                                   kData16),
                 {"data_offsets", "begin at 16", "[0, 16]"});
  const std::string backwards = R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                                R"("b":{"dtype":"U8","shape":[0],"data_offsets":[8,4]}})";
  expect_refused(safetensors_bytes(backwards, std::string(8, 'x')), {"tensor \"b\"", "[8, 4]"});
}

TEST_CASE("safetensors rule 7: a size beyond 64 bits") {
  expect_refused(safetensors_bytes(one_tensor("[2,18446744073709551614]"), kData16), {"tensor \"a\"", "64 bits"});
  expect_refused(safetensors_bytes(one_tensor("[2,9223372036854775807]"), kData16), {"tensor \"a\"", "64 bits"});
  expect_refused(safetensors_bytes(one_tensor("[18446744073709551616]"), kData16), {"tensor \"a\": shape"});
}

TEST_CASE("safetensors rule 8: sub-byte elements that do not fill their bytes") {
  expect_refused(safetensors_bytes(one_tensor("[3]", "[0,1]", "F4"), "x"), {"tensor \"a\"", "whole number of bytes"});
  expect_refused(safetensors_bytes(one_tensor("[3]", "[0,2]", "F6_E2M3"), "xx"),
                 {"tensor \"a\"", "3 elements of 6 bits"});
}

TEST_CASE("safetensors rule 9: offsets that do not fit dtype and shape") {
  expect_refused(safetensors_bytes(one_tensor("[2,2]", "[0,4]"), "xxxx"),
                 {"tensor \"a\"", "16 bytes for I32 [2, 2]", "[0, 4], 4 bytes"});
}

TEST_CASE("safetensors rule 10: a file cut short, and bytes after the last tensor") {
  expect_refused(safetensors_bytes(one_tensor(), kData16.substr(2)), {"data: expected 16 bytes", "14", "cut short"});
  expect_refused(safetensors_bytes(one_tensor(), kData16 + "PK"),
                 {"data: expected 16 bytes", "18", "something follows"});
}

TEST_CASE("safetensors: a name twice, a field twice") {
  expect_refused(safetensors_bytes(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                                   R"("a":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})",
                                   kData16),
                 {"every key once", "\"a\""});
  expect_refused(safetensors_bytes(R"({"a":{"dtype":"U8","shape":[8],"shape":[16],"data_offsets":[0,16]}})", kData16),
                 {"every key once", "\"shape\""});
}

TEST_CASE("safetensors: a name with line breaks stays one line in the message") {
  expect_refused(safetensors_bytes(R"({"a\n\u0000b":5})"), {R"("a\n\u0000b")"});
  expect_refused(safetensors_bytes(fmt::format(R"({{"{}":5}})", std::string(5000, 'n'))), {"nnnn…"});
}

TEST_CASE("checkpoint: one file, and other files beside it are left alone") {
  const ScratchFolder folder;
  folder.write("model.safetensors", file_of({{"a", "BF16", {2}}}));
  folder.write("stray.safetensors", "garbage");
  const Checkpoint checkpoint(folder.path());
  CHECK(checkpoint.names() == std::vector<std::string>{"a"});
  CHECK(checkpoint.get("a").bytes == 4);
  CHECK(checkpoint.find("b") == nullptr);
  CHECK(checkpoint.file_of("a") == folder.path() + "/model.safetensors");
  expect_refusal([&] { checkpoint.get("b"); }, {folder.path(), "tensor \"b\"", "nothing"});
}

TEST_CASE("checkpoint: no folder, no file in it") {
  expect_refusal([] { Checkpoint checkpoint("/no/such/folder"); }, {"/no/such/folder", "found nothing"});
  const ScratchFolder folder;
  expect_refusal([&] { Checkpoint checkpoint(folder.path()); }, {folder.path(), "model.safetensors", "found neither"});
  const std::string file = folder.write("x", "");
  expect_refusal([&] { Checkpoint checkpoint(file); }, {file, "found a file"});
}

TEST_CASE("checkpoint: shards by index, with odd names, before a model.safetensors beside them") {
  const ScratchFolder folder;
  folder.write("model.safetensors-00001-of-00001.safetensors", file_of({{"a", "BF16", {2}}}));
  folder.write("two.safetensors", file_of({{"b", "F32", {3}}, {"unlisted", "F32", {1}}}));
  folder.write("model.safetensors", "garbage");
  folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":16.0,"total_parameters":5},"weight_map":
    {"a":"model.safetensors-00001-of-00001.safetensors","b":"two.safetensors"}})");
  const Checkpoint checkpoint(folder.path());
  CHECK(checkpoint.names() == std::vector<std::string>{"a", "b"});
  CHECK(checkpoint.get("b").bytes == 12);
  CHECK(checkpoint.file_of("b") == folder.path() + "/two.safetensors");
}

TEST_CASE("checkpoint: an index that is wrong about its shards") {
  const ScratchFolder folder;
  folder.write("one.safetensors", file_of({{"a", "BF16", {2}}, {"both", "BF16", {1}}}));
  folder.write("two.safetensors", file_of({{"b", "F32", {3}}, {"both", "BF16", {1}}}));
  const auto refused = [&](const std::string& index, std::initializer_list<std::string> parts) {
    INFO(index);
    folder.write("model.safetensors.index.json", index);
    expect_refusal([&] { Checkpoint checkpoint(folder.path()); }, parts);
  };
  refused("{}", {"index.json: weight_map", "found nothing"});
  refused(R"({"weight_map":[]})", {"index.json: weight_map", "found []"});
  refused(R"({"weight_map":{"a":1}})", {"tensor \"a\"", "a file name", "found 1"});
  refused(R"({"weight_map":{"a":"three.safetensors"}})", {"index.json", "\"three.safetensors\"", "found nothing"});
  refused(R"({"weight_map":{"a":"../one.safetensors"}})", {"tensor \"a\"", "inside the folder", "../one"});
  refused(R"({"weight_map":{"a":"/etc/passwd"}})", {"tensor \"a\"", "inside the folder"});
  refused(R"({"weight_map":{"a":".."}})", {"tensor \"a\"", "inside the folder"});
  refused(R"({"weight_map":{"a":""}})", {"tensor \"a\"", "inside the folder"});
  refused(R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors"}})",
          {"tensor \"a\"", "expected it in \"two.safetensors\"", "found it in \"one.safetensors\""});
  refused(R"({"weight_map":{"c":"one.safetensors"}})", {"tensor \"c\"", "no shard"});
  refused(R"({"weight_map":{"both":"one.safetensors","b":"two.safetensors"}})", {"tensor \"both\"", "one copy"});
  refused(R"({"weight_map":{"a":"one.safetensors","a":"two.safetensors"}})", {"every key once", "\"a\""});
  refused(R"({"weight_map")", {"index.json", "expected JSON"});
}

TEST_CASE("checkpoint: a shard cut short is refused before any tensor is handed out") {
  const ScratchFolder folder;
  folder.write("one.safetensors", file_of({{"a", "BF16", {2}}}));
  const std::string whole = file_of({{"b", "F32", {3}}});
  folder.write("two.safetensors", whole.substr(0, whole.size() - 1));
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  expect_refusal([&] { Checkpoint checkpoint(folder.path()); }, {"two.safetensors: data", "cut short"});
}

TEST_CASE("checkpoint: the tensors each family expects") {
  const auto count = [](const ModelConfig& config) { return expected_tensors(config).size(); };
  CHECK(count(small_config(ModelConfig::Family::kArticle)) == 2 * 9 + 2);
  CHECK(count(small_config(ModelConfig::Family::kQwen2)) == 2 * 12 + 2);
  CHECK(count(small_config(ModelConfig::Family::kQwen3)) == 2 * 11 + 2);
  ModelConfig untied = small_config();
  untied.tied = false;
  CHECK(count(untied) == 2 * 11 + 3);

  std::uint64_t parameters = 0;
  for (const ExpectedTensor& tensor : expected_tensors(article_config())) {
    std::uint64_t elements = 1;
    for (const std::uint64_t dim : tensor.shape) elements *= dim;
    parameters += elements;
  }
  CHECK(parameters == 647'422'976);  // the article's model, tied
}

TEST_CASE("checkpoint: a whole model passes, in BF16, in F32 and mixed") {
  for (const auto family : {ModelConfig::Family::kArticle, ModelConfig::Family::kQwen2, ModelConfig::Family::kQwen3}) {
    const ModelConfig config = small_config(family);
    std::vector<Tensor> tensors = tensors_of(config);
    CHECK_NOTHROW(check(tensors, config));
    tensors[1].dtype = "F32";
    CHECK_NOTHROW(check(tensors, config));
    for (Tensor& tensor : tensors) tensor.dtype = "F32";
    CHECK_NOTHROW(check(tensors, config));
  }
}

TEST_CASE("checkpoint: tied with lm_head stored, tied without, untied without") {
  ModelConfig config = small_config();
  std::vector<Tensor> tensors = tensors_of(config);
  CHECK_NOTHROW(check(tensors, config));
  tensors.push_back({"lm_head.weight", "BF16", {11, 8}});
  CHECK_NOTHROW(check(tensors, config));
  config.tied = false;
  CHECK_NOTHROW(check(tensors, config));
  tensors.pop_back();
  expect_refusal([&] { check(tensors, config); }, {"tensor \"lm_head.weight\"", "[11, 8]", "found nothing"});
}

TEST_CASE("checkpoint: a missing tensor is named with its shape") {
  const ModelConfig qwen3 = small_config(), qwen2 = small_config(ModelConfig::Family::kQwen2);
  const auto refused_without = [](const ModelConfig& config, const std::string& name, const std::string& shape) {
    std::vector<Tensor> tensors = tensors_of(config);
    remove(tensors, name);
    expect_refusal([&] { check(tensors, config); }, {"tensor \"" + name + "\": expected " + shape, "found nothing"});
  };
  refused_without(qwen3, "model.layers.1.self_attn.q_norm.weight", "[6]");
  refused_without(qwen2, "model.layers.0.self_attn.q_proj.bias", "[24]");
  refused_without(qwen3, "model.layers.1.mlp.down_proj.weight", "[8, 5]");
  refused_without(qwen3, "model.embed_tokens.weight", "[11, 8]");
}

TEST_CASE("checkpoint: a wrong shape or dtype is named") {
  const ModelConfig config = small_config();
  std::vector<Tensor> tensors = tensors_of(config);
  named(tensors, "model.layers.0.self_attn.q_proj.weight").shape = {8, 24};
  expect_refusal([&] { check(tensors, config); },
                 {"model.safetensors", "q_proj.weight", "expected [24, 8]", "found [8, 24]"});
  tensors = tensors_of(config);
  named(tensors, "model.embed_tokens.weight").shape = {12, 8};
  expect_refusal([&] { check(tensors, config); }, {"embed_tokens", "expected [11, 8]", "found [12, 8]"});
  for (const std::string dtype : {"F16", "I32"}) {
    tensors = tensors_of(config);
    named(tensors, "model.norm.weight").dtype = dtype;
    expect_refusal([&] { check(tensors, config); },
                   {"model.norm.weight", "expected dtype BF16 or F32", "found " + dtype});
  }
}

TEST_CASE("checkpoint: tensors that would be dropped in silence are refused, RoPE buffers are not") {
  const ModelConfig config = small_config();
  std::vector<Tensor> tensors = tensors_of(config);
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {3}});
  CHECK_NOTHROW(check(tensors, config));
  tensors.push_back({"model.layers.0.self_attn.q_proj.bias", "BF16", {24}});
  expect_refusal([&] { check(tensors, config); }, {"q_proj.bias", "no such tensor in a qwen3 of 2 layers"});
  ModelConfig shallow = config;
  shallow.layers = 1;
  expect_refusal([&] { check(tensors_of(config), shallow); }, {"model.layers.1.", "of 1 layers"});
}
