#include "09_cuda_graph_decode/answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>

#include "09_cuda_graph_decode/chat.hpp"
#include "09_cuda_graph_decode/decoder.cuh"
#include "09_cuda_graph_decode/generate.hpp"
#include "09_cuda_graph_decode/utf8_stream.hpp"
#include "common/bench.hpp"
#include "common/program.hpp"

namespace {

constexpr const char* kQuestion = "What is a warp?";
constexpr int kInterruptedStatus = 130;

std::atomic<bool> interrupted{false};
const double program_start = host_seconds();  // before main: the closing line counts from here

bool is_shipped(const CommandLine& c) { return c.model.empty() && c.random.empty(); }
std::string model_folder(const CommandLine& c) { return c.model.empty() ? TINY_QWEN_DIR : c.model; }

ModelConfig model_config(const CommandLine& c) {
  return c.random.empty() ? read_config(model_folder(c)) : article_config();
}

DecoderOptions decoder_options(const CommandLine& c) {
  DecoderOptions options;
  options.fp32_gemm = gemm_of_step(c.gemm);
  options.fused_attention = c.attention == "fused";
  options.fused_operators = options.fp32_gemm == nullptr && options.fused_attention;
  options.graph = !c.no_graph && options.fused_attention;  // the unfused attention's launches grow with the text
  options.pdl = !c.no_pdl;
  return options;
}

std::string read_prompt(const CommandLine& c) {
  if (c.prompt_file.empty()) return c.prompt.empty() ? kQuestion : c.prompt;
  std::ifstream file(c.prompt_file, std::ios::binary);
  if (!file) throw BadInput(fmt::format("--prompt-file {}: cannot be read", c.prompt_file));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<int> prompt_ids(const CommandLine& c, const std::optional<Tokenizer>& tokenizer) {
  if (!c.tokens.empty()) return c.tokens;
  if (!tokenizer)
    throw BadInput("--random article has no tokenizer: give the prompt as --tokens 1,2,3, or --tokenizer DIR");
  const std::string text = read_prompt(c);
  return tokenizer->encode(c.chat || is_shipped(c) ? chat_prompt(text) : text);
}

std::optional<Tokenizer> tokenizer_if_any(const CommandLine& c) {
  const bool needed = c.tokens.empty() || !c.tokenizer.empty();
  if (!c.random.empty() && c.tokenizer.empty()) return std::nullopt;
  if (!needed && !std::ifstream(model_folder(c) + "/tokenizer.json")) return std::nullopt;
  return load_tokenizer(c);
}

// Everything that can be refused is refused here, before a byte of weights is read.
void check_length(const CommandLine& c, const ModelConfig& config, size_t prompt_tokens) {
  const size_t wanted = prompt_tokens + size_t(c.max_new_tokens);
  if (wanted > size_t(config.max_position))
    throw BadInput(fmt::format("{} prompt tokens + {} new ones = {}: the model's context is {}", prompt_tokens,
                               c.max_new_tokens, wanted, config.max_position));
  if (c.context > 0 && wanted > size_t(c.context))
    throw BadInput(fmt::format("{} prompt tokens + {} new ones = {}: --context is {}", prompt_tokens, c.max_new_tokens,
                               wanted, c.context));
  if (c.context > config.max_position)
    throw BadInput(fmt::format("--context {}: the model's context is {}", c.context, config.max_position));
}

// Prints text as its characters become whole; ids where there is no tokenizer.
class Printer {
 public:
  explicit Printer(const std::optional<Tokenizer>& tokenizer) : tokenizer_(tokenizer) {}
  void token(int id) {
    if (!tokenizer_)
      fmt::print("{} ", id);
    else if (!tokenizer_->is_special(id))
      fmt::print("{}", stream_.push(tokenizer_->token_bytes(id)));
    std::fflush(stdout);
  }
  void finish() { fmt::print("{}\n", stream_.finish()); }

 private:
  const std::optional<Tokenizer>& tokenizer_;
  Utf8Stream stream_;
};

}  // namespace

Tokenizer load_tokenizer(const CommandLine& c) {
  if (c.tokenizer.empty() && !c.random.empty())
    throw BadInput("--random article has no tokenizer: name one with --tokenizer DIR");
  return Tokenizer::load(c.tokenizer.empty() ? model_folder(c) : c.tokenizer);
}

Weights load_weights(const CommandLine& c) {
  const ModelConfig config = model_config(c);
  if (!c.random.empty()) return Weights(config, c.seed);
  return Weights(config, Checkpoint(model_folder(c)));
}

int answer(const CommandLine& c, nlohmann::json& rows) {
  const ModelConfig config = model_config(c);
  const std::optional<Tokenizer> tokenizer = tokenizer_if_any(c);
  const std::vector<int> prompt = prompt_ids(c, tokenizer);
  check_length(c, config, prompt.size());
  check_sampling_options(c.sampling);
  check_heads(config.heads, config.kv_heads, config.head_dim);

  std::optional<NpyWriter> logits;
  if (!c.logits_file.empty()) logits.emplace(c.logits_file, size_t(config.vocab));
  const double load_start = host_seconds();
  const Weights weights = load_weights(c);
  const double load_seconds = host_seconds() - load_start;
  const int capacity = c.context > 0 ? c.context : static_cast<int>(prompt.size()) + c.max_new_tokens;
  Decoder decoder(weights, capacity, decoder_options(c));

  Printer printer(tokenizer);
  GenerateOptions options;
  options.max_new_tokens = c.max_new_tokens;
  options.sampling = c.sampling;
  options.seed = c.seed;
  if (!c.ignore_eos && c.forced.empty()) options.eos = config.eos;
  options.forced = c.forced;
  options.logits = logits ? &*logits : nullptr;
  double first_token = 0;  // seconds from the start of the program until it was on the screen
  options.on_token = [&](int id) {
    printer.token(id);
    if (first_token == 0) first_token = host_seconds() - program_start;
  };
  options.stop = &interrupted;
  std::signal(SIGINT, [](int) { interrupted = true; });
  if (tokenizer && c.tokens.empty() && is_shipped(c)) fmt::print("> {}\n", read_prompt(c));
  const Generated result = generate(decoder, prompt, options);
  std::signal(SIGINT, SIG_DFL);
  printer.finish();
  std::fflush(stdout);  // before the summary on the other stream
  if (logits) logits->close();

  const double steps = double(result.ids.size()) - 1;
  const double rate = steps > 0 ? steps / result.decode_seconds : 0;
  const double on_device = device().gpu && steps > 0 ? decoder.device_seconds_per_step(std::min(8, int(steps))) : 0;
  fmt::print(
      stderr,
      "[{} · weights loaded in {:.2f} s, first token {:.2f} s after the start · prompt {} tokens in {:.1f} ms · "
      "{} new tokens, {:.1f} tokens/s{} · {} launches a token · weights {:.1f} MB, KV {:.1f} MB, peak {:.1f} MB]\n",
      machine_text(), load_seconds, first_token, prompt.size(), 1e3 * result.prefill_seconds, result.ids.size(), rate,
      on_device > 0 ? fmt::format(" (the GPU alone {:.1f})", 1 / on_device) : "", decoder.launches_per_token(),
      1e-6 * double(weights.bytes()), 1e-6 * double(decoder.kv_bytes()), 1e-6 * double(device_bytes_peak()));
  rows.push_back({{"step", "09"},
                  {"rung", "answer"},
                  {"shape", fmt::format("prompt {} + {}", prompt.size(), result.ids.size())},
                  {"dtype", "bf16"},
                  {"tokens", result.ids},
                  {"tokens_per_s", rate},
                  {"device_tokens_per_s", on_device > 0 ? 1 / on_device : 0.0},
                  {"load_seconds", load_seconds},
                  {"first_token_seconds", first_token},
                  {"launches", decoder.launches_per_token()},
                  {"peak_bytes", device_bytes_peak()},
                  {"weight_bytes", weights.bytes()},
                  {"kv_bytes", decoder.kv_bytes()},
                  {"machine", nlohmann::json::parse(machine_json())}});
  return result.reason == Generated::kInterrupted ? kInterruptedStatus : kOk;
}
