#include "09_cuda_graph_decode/config.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "09_cuda_graph_decode/json_file.hpp"
#include "common/error.hpp"

using nlohmann::json;

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& key, const std::string& expected,
                         const std::string& found) {
  throw BadInput(fmt::format("{}: {}: expected {}, found {}", file, key, expected, found));
}

// Accessors over one JSON object. A key that is null counts as absent, as in Hugging Face's own reader.
class Keys {
 public:
  Keys(const json& object, std::string file) : object_(object), file_(std::move(file)) {}

  const json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  int size(const char* key, int largest) const {
    const json* value = find(key);
    const std::string expected = fmt::format("a whole number from 1 to {}", largest);
    if (!value) refuse(file_, key, expected, "nothing");
    if (!value->is_number_integer()) refuse(file_, key, expected, shown(*value));
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() < 1 ||
        value->get<std::uint64_t>() > static_cast<std::uint64_t>(largest)) {
      refuse(file_, key, expected, shown(*value));
    }
    return value->get<int>();
  }

  double real(const char* key, double low, double high) const {
    const json* value = find(key);
    const std::string expected = fmt::format("a number from {} to {}", low, high);
    if (!value) refuse(file_, key, expected, "nothing");
    if (!value->is_number()) refuse(file_, key, expected, shown(*value));
    const double number = value->get<double>();
    if (!(number >= low && number <= high)) refuse(file_, key, expected, shown(*value));
    return number;
  }

  bool flag(const char* key, bool when_absent) const {
    const json* value = find(key);
    if (!value) return when_absent;
    if (!value->is_boolean()) refuse(file_, key, "true or false", shown(*value));
    return value->get<bool>();
  }

  void must_be_false(const char* key) const {
    if (flag(key, false)) refuse(file_, key, "false (this decoder has no such part)", "true");
  }

  const std::string& file() const { return file_; }

 private:
  const json& object_;
  std::string file_;
};

ModelConfig::Family read_family(const Keys& keys) {
  const std::string expected = "\"qwen2\", \"qwen3\" or \"llama\"";
  const json* type = keys.find("model_type");
  if (!type) refuse(keys.file(), "model_type", expected, "nothing");
  if (*type == "qwen2") return ModelConfig::Family::kQwen2;
  if (*type == "qwen3") return ModelConfig::Family::kQwen3;
  if (*type == "llama") return ModelConfig::Family::kArticle;
  if (*type == "qwen3_5" || *type == "qwen3_5_text") {
    refuse(keys.file(), "model_type", expected, shown(*type) + " (Gated DeltaNet is not supported yet)");
  }
  refuse(keys.file(), "model_type", expected, shown(*type));
}

// Files from before transformers 5 keep the base in rope_theta, later ones in rope_parameters.rope_theta. There is no
// safe default: with 10000 in the place of 1000000 the text drifts only as it grows longer.
double read_rope_theta(const Keys& keys) {
  constexpr double kLow = 1.0, kHigh = 1e12;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* scaling = keys.find(key);
    if (!scaling) continue;
    if (!scaling->is_object()) refuse(keys.file(), key, "an object or null", shown(*scaling));
    for (const char* type : {"rope_type", "type"}) {
      if (scaling->value(type, json("default")) != "default") {
        refuse(keys.file(), fmt::format("{}.{}", key, type), "\"default\"", shown((*scaling)[type]));
      }
    }
    const json partial = scaling->value("partial_rotary_factor", json(1.0));
    if (!partial.is_number() || partial.get<double>() != 1.0) {
      refuse(keys.file(), fmt::format("{}.partial_rotary_factor", key), "1", shown(partial));
    }
  }
  std::optional<double> theta;
  if (keys.find("rope_theta")) theta = keys.real("rope_theta", kLow, kHigh);
  if (const json* parameters = keys.find("rope_parameters"); parameters && parameters->contains("rope_theta")) {
    const double nested = Keys(*parameters, keys.file() + ": rope_parameters").real("rope_theta", kLow, kHigh);
    if (theta && *theta != nested) {
      refuse(keys.file(), "rope_theta", fmt::format("rope_parameters.rope_theta's {}", nested),
             fmt::format("{}", *theta));
    }
    theta = nested;
  }
  if (!theta) refuse(keys.file(), "rope_theta", "a number here or in rope_parameters", "neither");
  return *theta;
}

void refuse_what_the_decoder_lacks(const Keys& keys, const ModelConfig& config) {
  if (const json* act = keys.find("hidden_act"); act && *act != "silu") {
    refuse(keys.file(), "hidden_act", "\"silu\"", shown(*act));
  }
  if (const json* quantised = keys.find("quantization_config")) {
    refuse(keys.file(), "quantization_config", "nothing (weights in bf16 or fp32)", shown(*quantised));
  }
  // Qwen2's biases are fixed in its code, so the key says nothing there; in the others it would also put one on o_proj.
  if (config.family != ModelConfig::Family::kQwen2) keys.must_be_false("attention_bias");
  keys.must_be_false("mlp_bias");
  keys.must_be_false("use_sliding_window");
  keys.must_be_false("use_mrope");
  if (const json* types = keys.find("layer_types")) {
    if (!types->is_array() || types->size() != static_cast<size_t>(config.layers)) {
      refuse(keys.file(), "layer_types", fmt::format("one entry for each of {} layers", config.layers), shown(*types));
    }
    for (const json& type : *types) {
      if (type != "full_attention") refuse(keys.file(), "layer_types", "\"full_attention\" only", shown(type));
    }
  }
}

void add_eos(const json* value, const Keys& keys, int vocab, std::set<int>& eos) {
  if (!value) return;
  const json list = value->is_array() ? *value : json::array({*value});
  for (const json& id : list) {
    const std::string expected = fmt::format("token ids below vocab_size {}", vocab);
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocab)) {
      refuse(keys.file(), "eos_token_id", expected, shown(id));
    }
    eos.insert(id.get<int>());
  }
}

// The id of an added token: first from tokenizer_config.json's own table, which newer files leave out, then from
// tokenizer.json.
std::optional<json> id_of_token(const std::string& token, const json& tokenizer_config, const std::string& folder) {
  if (const auto table = tokenizer_config.find("added_tokens_decoder"); table != tokenizer_config.end()) {
    for (const auto& [id, entry] : table->items()) {
      if (entry.is_object() && entry.value("content", json()) == token) return parse_json(id, "added_tokens_decoder");
    }
  }
  const std::string path = folder + "/tokenizer.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  const json tokenizer = read_json_object(path);
  for (const json& entry : tokenizer.value("added_tokens", json::array())) {
    if (entry.is_object() && entry.value("content", json()) == token) return entry.value("id", json());
  }
  refuse(folder + "/tokenizer_config.json", "eos_token", "one of tokenizer.json's added tokens", quote_name(token));
}

std::vector<int> read_eos(const Keys& keys, const std::string& folder, int vocab) {
  std::set<int> eos;
  add_eos(keys.find("eos_token_id"), keys, vocab, eos);
  if (const std::string path = folder + "/generation_config.json"; std::filesystem::exists(path)) {
    const json generation = read_json_object(path);
    const Keys generation_keys(generation, path);
    add_eos(generation_keys.find("eos_token_id"), generation_keys, vocab, eos);
  }
  if (const std::string path = folder + "/tokenizer_config.json"; std::filesystem::exists(path)) {
    const json tokenizer = read_json_object(path);
    const Keys tokenizer_keys(tokenizer, path);
    if (const json* token = tokenizer_keys.find("eos_token")) {
      const json content = token->is_object() ? token->value("content", json()) : *token;
      if (!content.is_string()) refuse(path, "eos_token", "a string", shown(*token));
      if (const auto id = id_of_token(content.get<std::string>(), tokenizer, folder)) {
        add_eos(&*id, tokenizer_keys, vocab, eos);
      }
    }
  }
  return {eos.begin(), eos.end()};
}

}  // namespace

const char* family_name(ModelConfig::Family family) {
  switch (family) {
    case ModelConfig::Family::kQwen2:
      return "qwen2";
    case ModelConfig::Family::kQwen3:
      return "qwen3";
    case ModelConfig::Family::kArticle:
      break;
  }
  return "article";
}

ModelConfig article_config() {
  ModelConfig config;
  config.family = ModelConfig::Family::kArticle;
  config.layers = 28;
  config.hidden = 1024;
  config.heads = 8;
  config.kv_heads = 2;
  config.head_dim = 128;
  config.intermediate = 4864;
  config.vocab = 151936;
  config.max_position = 32768;
  config.rms_eps = 1e-6;
  config.rope_theta = 1e6;
  config.tied = true;
  return config;
}

ModelConfig read_config(const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw BadInput(fmt::format("{}: expected a model folder with config.json, found {}", folder,
                               std::filesystem::exists(folder) ? "a file" : "nothing"));
  }
  const std::string path = folder + "/config.json";
  const json object = read_json_object(path);
  const Keys keys(object, path);

  ModelConfig config;
  config.family = read_family(keys);
  config.layers = keys.size("num_hidden_layers", 1024);
  config.hidden = keys.size("hidden_size", 65536);
  config.heads = keys.size("num_attention_heads", 1024);
  config.kv_heads = keys.size("num_key_value_heads", 1024);
  config.intermediate = keys.size("intermediate_size", 1 << 20);
  config.vocab = keys.size("vocab_size", 1 << 22);
  config.max_position = keys.size("max_position_embeddings", 1 << 24);
  config.rms_eps = keys.real("rms_norm_eps", 1e-12, 1e-1);
  if (config.heads % config.kv_heads != 0) {
    refuse(path, "num_key_value_heads", fmt::format("a divisor of num_attention_heads {}", config.heads),
           fmt::format("{}", config.kv_heads));
  }
  if (keys.find("head_dim")) {
    config.head_dim = keys.size("head_dim", 1024);
  } else if (config.hidden % config.heads == 0) {
    config.head_dim = config.hidden / config.heads;
  } else {
    refuse(path, "head_dim",
           fmt::format("a number, since {} heads do not divide hidden_size {}", config.heads, config.hidden),
           "nothing");
  }
  if (config.head_dim % 2 != 0) {
    refuse(path, "head_dim", "an even number (RoPE turns pairs)", fmt::format("{}", config.head_dim));
  }
  config.rope_theta = read_rope_theta(keys);
  config.tied = keys.flag("tie_word_embeddings", false);
  config.qkv_bias = config.family == ModelConfig::Family::kQwen2;
  config.qk_norm = config.family == ModelConfig::Family::kQwen3;
  refuse_what_the_decoder_lacks(keys, config);
  config.eos = read_eos(keys, folder, config.vocab);
  return config;
}
