// config.json and its neighbours: what is read, and what is refused with one line.
#include <nlohmann/json.hpp>

#include "09_cuda_graph_decode/config.hpp"
#include "09_cuda_graph_decode/test_files.hpp"

using nlohmann::json;
using Family = ModelConfig::Family;

namespace {

// Qwen3-0.6B as published.
json qwen3_config() {
  return json::parse(R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": false,
    "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
    "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28, "num_attention_heads": 16,
    "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null,
    "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    "use_sliding_window": false, "vocab_size": 151936})");
}

json qwen2_config() {
  return json::parse(R"({"model_type": "qwen2", "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896,
    "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24, "num_attention_heads": 14,
    "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "sliding_window": 32768, "tie_word_embeddings": true, "use_mrope": false, "use_sliding_window": false,
    "vocab_size": 151936})");
}

ModelConfig read(const json& config) {
  const ScratchFolder folder;
  folder.write("config.json", config.dump());
  return read_config(folder.path());
}

// Qwen3-0.6B with one key set to something else (or taken away, where `value` is discarded).
void expect_refused(const std::string& key, const json& value, std::initializer_list<std::string> parts) {
  json config = qwen3_config();
  if (value.is_discarded()) {
    config.erase(key);
  } else {
    config[key] = value;
  }
  INFO(key << " = " << (value.is_discarded() ? "absent" : value.dump()));
  expect_refusal([&] { read(config); }, parts);
}

const json kAbsent = json(json::value_t::discarded);

}  // namespace

TEST_CASE("config: Qwen3-0.6B as published") {
  const ModelConfig config = read(qwen3_config());
  CHECK(config.family == Family::kQwen3);
  CHECK(config.layers == 28);
  CHECK(config.hidden == 1024);
  CHECK(config.heads == 16);
  CHECK(config.kv_heads == 8);
  CHECK(config.head_dim == 128);
  CHECK(config.q_width() == 2048);
  CHECK(config.kv_width() == 1024);
  CHECK(config.intermediate == 3072);
  CHECK(config.vocab == 151936);
  CHECK(config.max_position == 40960);
  CHECK(config.rms_eps == 1e-6);
  CHECK(config.rope_theta == 1e6);
  CHECK(config.tied);
  CHECK(config.qk_norm);
  CHECK_FALSE(config.qkv_bias);
  CHECK(config.eos == std::vector<int>{151645});
}

TEST_CASE("config: Qwen2.5-0.5B has biases, no head_dim key and a group of 7") {
  const ModelConfig config = read(qwen2_config());
  CHECK(config.family == Family::kQwen2);
  CHECK(config.head_dim == 64);
  CHECK(config.heads / config.kv_heads == 7);
  CHECK(config.qkv_bias);
  CHECK_FALSE(config.qk_norm);
}

TEST_CASE("config: the article's shape, built in and as a llama folder") {
  const ModelConfig built_in = article_config();
  json config = {{"model_type", "llama"},     {"num_hidden_layers", 28},  {"hidden_size", 1024},
                 {"num_attention_heads", 8},  {"num_key_value_heads", 2}, {"head_dim", 128},
                 {"intermediate_size", 4864}, {"vocab_size", 151936},     {"max_position_embeddings", 32768},
                 {"rms_norm_eps", 1e-6},      {"rope_theta", 1e6},        {"tie_word_embeddings", true},
                 {"attention_bias", false},   {"mlp_bias", false}};
  const ModelConfig from_file = read(config);
  CHECK(from_file.family == Family::kArticle);
  CHECK(from_file.layers == built_in.layers);
  CHECK(from_file.hidden == built_in.hidden);
  CHECK(from_file.heads == built_in.heads);
  CHECK(from_file.kv_heads == built_in.kv_heads);
  CHECK(from_file.head_dim == built_in.head_dim);
  CHECK(from_file.intermediate == built_in.intermediate);
  CHECK(from_file.vocab == built_in.vocab);
  CHECK(from_file.max_position == built_in.max_position);
  CHECK(from_file.rms_eps == built_in.rms_eps);
  CHECK(from_file.rope_theta == built_in.rope_theta);
  CHECK(from_file.tied);
  CHECK_FALSE(from_file.qkv_bias);
  CHECK_FALSE(from_file.qk_norm);
  config["attention_bias"] = true;
  expect_refusal([&] { read(config); }, {"config.json", "attention_bias", "expected false", "found true"});
}

TEST_CASE("config: family names") {
  CHECK(std::string(family_name(Family::kArticle)) == "article");
  CHECK(std::string(family_name(Family::kQwen2)) == "qwen2");
  CHECK(std::string(family_name(Family::kQwen3)) == "qwen3");
}

TEST_CASE("config: head_dim need not be hidden / heads, and is that where it is absent") {
  json config = qwen3_config();
  config["head_dim"] = 80;
  CHECK(read(config).head_dim == 80);
  config.erase("head_dim");
  CHECK(read(config).head_dim == 64);
  config["num_attention_heads"] = 24;
  expect_refusal([&] { read(config); }, {"config.json: head_dim", "24 heads", "1024"});
}

TEST_CASE("config: the RoPE base from rope_parameters (transformers 5), from rope_theta, from neither") {
  json config = qwen3_config();
  config.erase("rope_theta");
  expect_refusal([&] { read(config); }, {"config.json: rope_theta", "found neither"});
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  CHECK(read(config).rope_theta == 500000.0);
  config["rope_theta"] = 500000;
  CHECK(read(config).rope_theta == 500000.0);
  config["rope_theta"] = 10000;
  expect_refusal([&] { read(config); }, {"config.json: rope_theta", "500000", "found 10000"});
  config.erase("rope_theta");
  config["rope_parameters"].erase("rope_theta");
  expect_refusal([&] { read(config); }, {"config.json: rope_theta", "found neither"});
}

TEST_CASE("config: scaled and partial RoPE are refused, the default kind is not") {
  expect_refused("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}, {"rope_scaling.rope_type", "\"yarn\""});
  expect_refused("rope_scaling", {{"type", "linear"}, {"factor", 2.0}}, {"rope_scaling.type", "\"linear\""});
  expect_refused("rope_parameters", {{"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}},
                 {"rope_parameters.partial_rotary_factor", "expected 1", "found 0.25"});
  expect_refused("rope_scaling", 2, {"rope_scaling", "an object or null", "found 2"});
  json config = qwen3_config();
  config["rope_scaling"] = {{"type", "default"}};
  CHECK(read(config).rope_theta == 1e6);
}

TEST_CASE("config: an unknown family is named") {
  expect_refused("model_type", "mamba", {"config.json: model_type", "qwen3", "found \"mamba\""});
  expect_refused("model_type", "qwen3_5", {"config.json: model_type", "\"qwen3_5\"", "not supported yet"});
  expect_refused("model_type", "qwen3_5_text", {"not supported yet"});
  expect_refused("model_type", kAbsent, {"config.json: model_type", "found nothing"});
  expect_refused("model_type", 3, {"config.json: model_type", "found 3"});
}

TEST_CASE("config: every size must be there, whole, positive and sane") {
  for (const std::string key : {"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
                                "intermediate_size", "vocab_size", "max_position_embeddings"}) {
    expect_refused(key, kAbsent, {"config.json: " + key, "found nothing"});
    expect_refused(key, json(nullptr), {"config.json: " + key, "found nothing"});
    expect_refused(key, 0, {"config.json: " + key, "from 1 to", "found 0"});
    expect_refused(key, -4, {"config.json: " + key, "found -4"});
    expect_refused(key, 1.5, {"config.json: " + key, "found 1.5"});
    expect_refused(key, "8", {"config.json: " + key, "found \"8\""});
    expect_refused(key, 9000000000, {"config.json: " + key, "found 9000000000"});
  }
  expect_refused("head_dim", 0, {"config.json: head_dim", "found 0"});
  expect_refused("head_dim", 63, {"config.json: head_dim", "even", "found 63"});
}

TEST_CASE("config: eps and theta must be numbers that make sense") {
  expect_refused("rms_norm_eps", kAbsent, {"rms_norm_eps", "found nothing"});
  expect_refused("rms_norm_eps", 0, {"rms_norm_eps", "found 0"});
  expect_refused("rms_norm_eps", -1e-6, {"rms_norm_eps", "found -1e-06"});
  expect_refused("rms_norm_eps", "1e-6", {"rms_norm_eps", "found \"1e-6\""});
  expect_refused("rope_theta", -1, {"rope_theta", "found -1"});
  expect_refused("rope_theta", true, {"rope_theta", "found true"});
}

TEST_CASE("config: what this decoder has no code for is refused, not ignored") {
  expect_refused("num_key_value_heads", 3, {"num_key_value_heads", "divisor of num_attention_heads 16", "found 3"});
  expect_refused("hidden_act", "gelu", {"hidden_act", "\"silu\"", "found \"gelu\""});
  expect_refused("use_sliding_window", true, {"use_sliding_window", "found true"});
  expect_refused("attention_bias", true, {"attention_bias", "found true"});
  expect_refused("quantization_config", {{"bits", 4}}, {"quantization_config", "bf16"});
  expect_refused("layer_types", {"full_attention"}, {"layer_types", "28 layers"});
  expect_refused("layer_types", std::vector<std::string>(28, "sliding_attention"),
                 {"layer_types", "found \"sliding_attention\""});
  expect_refused("tie_word_embeddings", "yes", {"tie_word_embeddings", "true or false", "found \"yes\""});
  json config = qwen3_config();
  config["layer_types"] = std::vector<std::string>(28, "full_attention");
  config.erase("tie_word_embeddings");
  CHECK_FALSE(read(config).tied);
}

TEST_CASE("config: the stop set is the union of three files") {
  const ScratchFolder folder;
  json config = qwen3_config();
  config["eos_token_id"] = {151645, 7};
  folder.write("config.json", config.dump());
  CHECK(read_config(folder.path()).eos == std::vector<int>{7, 151645});

  folder.write("generation_config.json", R"({"eos_token_id": [151645, 151643], "temperature": 0.6})");
  CHECK(read_config(folder.path()).eos == std::vector<int>{7, 151643, 151645});

  // The id of the tokenizer's own end token: from its table, else from tokenizer.json.
  folder.write("tokenizer_config.json",
               R"({"eos_token": "<|end|>", "added_tokens_decoder": {"9": {"content": "<|end|>"}}})");
  CHECK(read_config(folder.path()).eos == std::vector<int>{7, 9, 151643, 151645});
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<|end|>"}})");
  CHECK(read_config(folder.path()).eos == std::vector<int>{7, 151643, 151645});
  folder.write("tokenizer.json", R"({"added_tokens": [{"id": 11, "content": "<|end|>"}]})");
  CHECK(read_config(folder.path()).eos == std::vector<int>{7, 11, 151643, 151645});
  folder.write("tokenizer_config.json", R"({"eos_token": "<|stop|>"})");
  expect_refusal([&] { read_config(folder.path()); }, {"tokenizer_config.json: eos_token", "\"<|stop|>\""});
  folder.write("tokenizer_config.json", R"({"eos_token": null})");
  CHECK(read_config(folder.path()).eos == std::vector<int>{7, 151643, 151645});
}

TEST_CASE("config: end tokens outside the vocabulary are refused; none at all is a model that never stops") {
  expect_refused("eos_token_id", 151936, {"config.json: eos_token_id", "vocab_size 151936", "found 151936"});
  expect_refused("eos_token_id", -1, {"config.json: eos_token_id", "found -1"});
  expect_refused("eos_token_id", "<|im_end|>", {"config.json: eos_token_id", "found \"<|im_end|>\""});
  json config = qwen3_config();
  config["eos_token_id"] = nullptr;
  CHECK(read(config).eos.empty());
}

TEST_CASE("config: a file that is missing, empty or no JSON object") {
  expect_refusal([] { read_config("/no/such/folder"); }, {"/no/such/folder", "model folder", "found nothing"});
  const ScratchFolder folder;
  expect_refusal([&] { read_config(folder.path()); }, {"config.json", "expected a file", "found nothing"});
  const std::string file = folder.write("config.json", "");
  expect_refusal([&] { read_config(file); }, {"model folder", "found a file"});
  expect_refusal([&] { read_config(folder.path()); }, {"config.json", "empty file"});
  folder.write("config.json", "{\"model_type\": ");
  expect_refusal([&] { read_config(folder.path()); }, {"config.json", "expected JSON", "at byte"});
  folder.write("config.json", "[1]");
  expect_refusal([&] { read_config(folder.path()); }, {"config.json", "a JSON object", "array"});
  folder.write("config.json", R"({"hidden_size": 1, "hidden_size": 2})");
  expect_refusal([&] { read_config(folder.path()); }, {"config.json", "every key once", "\"hidden_size\""});
  folder.write("config.json", std::string("{}\0{", 4));
  expect_refusal([&] { read_config(folder.path()); }, {"config.json", "NUL byte at byte 2"});
  folder.write("config.json", "\xEF\xBB\xBF{}");
  expect_refusal([&] { read_config(folder.path()); }, {"config.json", "byte-order mark"});
  folder.write("config.json", std::string(100000, '['));
  expect_refusal([&] { read_config(folder.path()); }, {"config.json", "64 levels"});
  folder.write("config.json", R"({"rope_theta": 1e999})");
  expect_refusal([&] { read_config(folder.path()); }, {"config.json", "number too large"});
}
