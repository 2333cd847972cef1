#include "09_cuda_graph_decode/generate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "09_cuda_graph_decode/decoder.cuh"
#include "common/bench.hpp"

namespace {

void check(const Decoder& decoder, const std::vector<int>& prompt, const GenerateOptions& options) {
  const int vocab = decoder.config().vocab;
  if (prompt.empty()) throw BadInput("the prompt is empty: at least one token is needed");
  for (const std::vector<int>* ids : {&prompt, &options.forced})
    for (const int id : *ids)
      if (id < 0 || id >= vocab) throw BadInput(fmt::format("token id {} is outside the vocabulary of {}", id, vocab));
  if (options.max_new_tokens < 1) throw BadInput(fmt::format("{} new tokens: at least 1", options.max_new_tokens));
  if (prompt.size() + size_t(options.max_new_tokens) > size_t(decoder.capacity()))
    throw BadInput(fmt::format("{} prompt tokens and {} new ones: the context holds {}", prompt.size(),
                               options.max_new_tokens, decoder.capacity()));
}

}  // namespace

Generated generate(Decoder& decoder, const std::vector<int>& prompt, const GenerateOptions& options) {
  check(decoder, prompt, options);
  Generated result;
  std::mt19937_64 random(options.seed);
  const bool sampled = options.sampling.temperature > 0;

  // Where nobody but the device chooses tokens, it is one step ahead of the reader. The step behind an end token is in
  // vain, but nothing of it is seen.
  const bool ahead = !sampled && !options.logits && options.forced.empty();
  const auto token_of_step = [&](int step) {
    decoder.request_token();
    if (ahead && step + 1 < options.max_new_tokens) decoder.step();
    return decoder.requested_token();
  };

  double start = host_seconds();
  decoder.prefill(prompt);
  int greedy = token_of_step(0);  // waits for the device
  result.prefill_seconds = host_seconds() - start;

  start = host_seconds();
  for (int step = 0;; ++step) {
    std::vector<float> logits;
    if (options.logits || sampled) logits = decoder.logits();
    if (options.logits) options.logits->row(logits.data());
    int id = greedy;
    if (step < static_cast<int>(options.forced.size()))
      id = options.forced[size_t(step)];
    else if (sampled)
      id = sample(logits.data(), static_cast<int>(logits.size()), options.sampling, random);
    result.ids.push_back(id);
    if (options.on_token) options.on_token(id);
    if (std::find(options.eos.begin(), options.eos.end(), id) != options.eos.end()) {
      result.reason = Generated::kEos;
      break;
    }
    if (options.stop && *options.stop) {
      result.reason = Generated::kInterrupted;
      break;
    }
    if (step + 1 == options.max_new_tokens) break;
    if (id != greedy) decoder.replace_next_token(id);
    if (!ahead) decoder.step();
    greedy = token_of_step(step + 1);
  }
  result.decode_seconds = host_seconds() - start;
  return result;
}
