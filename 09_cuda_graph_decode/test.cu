#include "08_qwen_operators/linear_mma.cuh"
#include "08_qwen_operators/linear_sm90.cuh"
#include "09_cuda_graph_decode/decoder.cuh"
#include "09_cuda_graph_decode/generate.hpp"
#include "09_cuda_graph_decode/ladder.hpp"
#include "09_cuda_graph_decode/reference_decoder.hpp"
#include "09_cuda_graph_decode/test_models.hpp"
#include "common/catch.hpp"

namespace {

struct Run {
  std::vector<int> ids;
  std::vector<std::vector<float>> logits;
};
Run run(Decoder& decoder, const std::vector<int>& prompt, int steps) {
  Run r;
  decoder.prefill(prompt);
  for (int i = 0; i < steps; ++i) {
    r.logits.push_back(decoder.logits());
    r.ids.push_back(decoder.next_token());
    decoder.step();
  }
  return r;
}

DecoderOptions without_graph() {
  DecoderOptions o;
  o.graph = false;
  return o;
}

}  // namespace

TEST_CASE("09 the logits of prefill and of every step are those of the plain decoder in double") {
  for (const ModelConfig& config : {small_qwen3(), small_qwen2(), small_article()}) {
    INFO(family_name(config.family));
    const Weights weights(config, 3);
    const ReferenceDecoder reference(weights);
    for (const int length : {1, 2, 9}) {
      Decoder decoder(weights, 32, DecoderOptions());
      std::vector<int> text = some_prompt(length, config.vocab);
      decoder.prefill(text);
      for (int step = 0; step < 4; ++step) {
        INFO("prompt " << length << ", step " << step);
        CHECK(relative_error(decoder.logits(), reference.logits(text)) < 0.02);  // bfloat16 between the kernels
        text.push_back(decoder.next_token());
        decoder.step();
      }
    }
  }
}

TEST_CASE("09 graph, eager and a rerun, with and without dependent launch: the same bits", "[bits]") {
  DecoderOptions no_pdl;
  no_pdl.pdl = false;
  for (const ModelConfig& config : {small_qwen3(), small_qwen2(), small_article()}) {
    INFO(family_name(config.family));
    const Weights weights(config, 5);
    const std::vector<int> prompt = some_prompt(7, config.vocab);
    Decoder graph(weights, 40, DecoderOptions());
    const Run want = run(graph, prompt, 8), again = run(graph, prompt, 8);
    CHECK(again.ids == want.ids);
    CHECK(again.logits == want.logits);
    for (const DecoderOptions& options : {without_graph(), no_pdl, DecoderOptions()}) {
      Decoder other(weights, 40, options);
      const Run got = run(other, prompt, 8);
      CHECK(got.ids == want.ids);
      CHECK(got.logits == want.logits);
    }
  }
}

TEST_CASE("09 a second prompt of another length gives what a fresh decoder gives") {
  const Weights weights(small_qwen3(), 6);
  for (const DecoderOptions& options : {DecoderOptions(), without_graph()}) {
    Decoder decoder(weights, 48, options);
    run(decoder, some_prompt(17, 211), 9);
    const Run second = run(decoder, some_prompt(5, 211, 3), 9);
    Decoder fresh(weights, 48, options);
    const Run want = run(fresh, some_prompt(5, 211, 3), 9);
    CHECK(second.ids == want.ids);
    CHECK(second.logits == want.logits);
  }
}

TEST_CASE("09 prefill of n + 1 tokens agrees with prefill of n and one step") {
  const Weights weights(small_article(), 7);
  for (const int n : {1, 15, 16, 31}) {
    const std::vector<int> prompt = some_prompt(n + 1, 211);
    Decoder whole(weights, 64, DecoderOptions()), part(weights, 64, DecoderOptions());
    whole.prefill(prompt);
    part.prefill({prompt.begin(), prompt.end() - 1});
    part.replace_next_token(prompt.back());
    part.step();
    const std::vector<float> want = whole.logits();
    CHECK(relative_error(part.logits(), {want.begin(), want.end()}) < 0.02);
    CHECK(part.text(0, n + 1) == prompt);
  }
}

TEST_CASE("09 a prompt longer than one piece is read in pieces") {
  ModelConfig config = small_qwen3();
  config.layers = 1;
  const Weights weights(config, 8);
  const std::vector<int> prompt = some_prompt(259, config.vocab);
  DecoderOptions small_pieces;  // 100 is no multiple of a tile: 100 + 100 + 59 rows
  small_pieces.piece_rows = 100;
  Decoder decoder(weights, 300, DecoderOptions()), pieces(weights, 300, small_pieces);
  decoder.prefill(prompt);
  pieces.prefill(prompt);
  const std::vector<float> want = decoder.logits();
  CHECK(relative_error(pieces.logits(), {want.begin(), want.end()}) < 0.01);
}

TEST_CASE("09 prefill by wgmma agrees with prefill by mma.sync, in pieces as well") {
  if (!device().has_wgmma) return;
  const ModelConfig config = small_article();
  const Weights weights(config, 18);
  const std::vector<int> prompt = some_prompt(259, config.vocab);
  DecoderOptions wgmma, pieces, mma_sync;
  mma_sync.wgmma = false;
  pieces.piece_rows = 136;
  if (!device().gpu)  // a card with many multiprocessors may find these shapes too small for it
    REQUIRE(linear_sm90_plan(256, config.hidden, config.intermediate).clocks <=
            linear_plan(256, config.hidden, config.intermediate).clocks);
  Decoder plain(weights, 300, mma_sync), fast(weights, 300, wgmma), in_pieces(weights, 300, pieces);
  for (Decoder* decoder : {&plain, &fast, &in_pieces}) decoder->prefill(prompt);
  const std::vector<float> want = plain.logits();
  CHECK(relative_error(fast.logits(), {want.begin(), want.end()}) < 0.01);
  CHECK(relative_error(in_pieces.logits(), {want.begin(), want.end()}) < 0.01);
}

TEST_CASE("09 prefill again, from its graph: the same bits; other lengths of the same padded shape too") {
  const Weights weights(small_qwen2(), 16);
  Decoder decoder(weights, 80, DecoderOptions()), eager(weights, 80, without_graph());
  for (const int length : {5, 64, 3, 65, 79, 1, 5}) {  // 64 rows, 64, 64, then 80, the capacity
    const std::vector<int> prompt = some_prompt(length, 211);
    INFO(length << " tokens");
    decoder.prefill(prompt);
    eager.prefill(prompt);
    CHECK(decoder.logits() == eager.logits());
    CHECK(decoder.next_token() == eager.next_token());
    CHECK(decoder.text(0, length) == prompt);
  }
}

TEST_CASE("09 a last piece of one token sees all the tokens before it") {
  ModelConfig config = small_qwen3();
  config.layers = 1;
  const Weights weights(config, 17);
  const std::vector<int> prompt = some_prompt(9, config.vocab);
  DecoderOptions plain;
  plain.fused_operators = plain.graph = false;
  for (DecoderOptions options : {plain, DecoderOptions()}) {
    Decoder whole(weights, 32, options);
    options.piece_rows = 8;
    Decoder pieces(weights, 32, options);
    whole.prefill(prompt);
    pieces.prefill(prompt);
    const std::vector<float> want = whole.logits();
    CHECK(relative_error(pieces.logits(), {want.begin(), want.end()}) < 0.01);
  }
}

TEST_CASE("09 every rung of the ladder produces the same tokens") {
  const Weights weights(small_article(), 9);
  nlohmann::json rows = nlohmann::json::array();
  LadderOptions options;
  options.context = 6;
  options.new_tokens = 8;
  CHECK(run_ladder(weights, options, rows));
  CHECK(rows.size() == ladder_rungs().size());
  for (const auto& row : rows) CHECK(row["checked"] == true);
}

TEST_CASE("09 every rung of prefill's ladder gives the same logits") {
  const Weights weights(small_article(), 9);
  nlohmann::json rows = nlohmann::json::array();
  CHECK(run_prefill_ladder(weights, rows));
  CHECK(rows.size() == (device().gpu ? 15 : 5));  // rungs, at three lengths on a GPU
  for (const auto& row : rows) CHECK(row["checked"] == true);
}

TEST_CASE("09 no capture of the decoder allocates or waits", "[capture]") {
  const Weights weights(small_qwen3(), 10);
  const int before = Graph::refused_calls();
  Decoder decoder(weights, 80, DecoderOptions());  // captures the step
  CHECK(decoder.launches_per_token() > 10);
  for (const int length : {5, 70}) decoder.prefill(some_prompt(length, 211));  // captures 64 rows, then 80
  CHECK(Graph::refused_calls() == before);
}

TEST_CASE("09 nothing is allocated after the constructor") {
  const Weights weights(small_qwen3(), 10);
  Decoder decoder(weights, 32, DecoderOptions());
  const size_t before = device_bytes_in_use();
  run(decoder, some_prompt(5, 211), 6);
  CHECK(device_bytes_in_use() == before);
}

TEST_CASE("09 activations stay within 64 MiB beyond weights and cache, for the article's shape") {
  // the same sums the constructor makes, on the executor too: the buffers are allocated, nothing is run on them
  const ModelConfig c = article_config();
  const size_t rows = size_t(DecoderOptions().piece_rows);
  const size_t bytes = rows * (size_t(c.hidden) * (4 + 2) + size_t(c.q_width() + 2 * c.kv_width()) * 2 +
                               size_t(c.q_width()) * 4 + size_t(c.intermediate) * 6) +
                       size_t(c.vocab) * 4;
  CHECK(bytes < (48u << 20));
  for (int m = 1; m <= int(rows); ++m) {  // split-K's partial sums
    CHECK(size_t(linear_split(m, c.hidden, c.intermediate)) * size_t(m) * size_t(c.hidden) * 4 <= (16u << 20));
    CHECK(size_t(linear_split(m, c.hidden, c.q_width())) * size_t(m) * size_t(c.hidden) * 4 <= (16u << 20));
  }
}

TEST_CASE("09 generate: refuses what does not fit, before any work") {
  const Weights weights(small_qwen3(), 11);
  Decoder decoder(weights, 16, DecoderOptions());
  GenerateOptions options;
  options.max_new_tokens = 8;
  CHECK_THROWS_AS(generate(decoder, {}, options), BadInput);
  CHECK_THROWS_AS(generate(decoder, {1, 211}, options), BadInput);
  CHECK_THROWS_AS(generate(decoder, {1, -1}, options), BadInput);
  CHECK_THROWS_AS(generate(decoder, some_prompt(9, 211), options), BadInput);
  options.forced = {5000};
  CHECK_THROWS_AS(generate(decoder, {1}, options), BadInput);
}

TEST_CASE("09 generate: stops at an end token, and at the length") {
  const Weights weights(small_qwen3(), 12);
  Decoder decoder(weights, 32, DecoderOptions());
  GenerateOptions options;
  options.max_new_tokens = 10;
  const Generated all = generate(decoder, {3, 4}, options);
  CHECK(all.ids.size() == 10);
  CHECK(all.reason == Generated::kLength);
  options.eos = {all.ids[4]};
  const Generated ended = generate(decoder, {3, 4}, options);
  CHECK(ended.reason == Generated::kEos);
  CHECK(ended.ids.back() == all.ids[4]);
  CHECK(ended.ids.size() <= 5);
}

TEST_CASE("09 generate: forced tokens are fed, and sampling is deterministic for a seed") {
  const Weights weights(small_qwen3(), 13);
  Decoder decoder(weights, 32, DecoderOptions());
  GenerateOptions options;
  options.max_new_tokens = 6;
  options.forced = {9, 8, 7, 6, 5, 4};
  CHECK(generate(decoder, {1, 2, 3}, options).ids == options.forced);
  CHECK(decoder.text(3, 8) == std::vector<int>{9, 8, 7, 6, 5});
  options.forced.clear();
  options.sampling.temperature = 1.5;
  options.seed = 77;
  const std::vector<int> first = generate(decoder, {1, 2, 3}, options).ids;
  CHECK(generate(decoder, {1, 2, 3}, options).ids == first);
  options.seed = 78;
  CHECK(generate(decoder, {1, 2, 3}, options).ids != first);
}

TEST_CASE("09 generate: an interrupt ends the text after the token at hand") {
  const Weights weights(small_qwen3(), 14);
  Decoder decoder(weights, 32, DecoderOptions());
  std::atomic<bool> stop{false};
  GenerateOptions options;
  options.max_new_tokens = 10;
  options.stop = &stop;
  int seen = 0;
  options.on_token = [&](int) { stop = ++seen == 3; };
  const Generated result = generate(decoder, {1, 2}, options);
  CHECK(result.reason == Generated::kInterrupted);
  CHECK(result.ids.size() == 3);
}

TEST_CASE("09 the text may fill the capacity, not pass it") {
  const Weights weights(small_qwen3(), 15);
  Decoder decoder(weights, 8, DecoderOptions());
  decoder.prefill(some_prompt(6, 211));
  decoder.step();
  decoder.step();
  CHECK_THROWS_AS(decoder.step(), BadInput);
  CHECK(decoder.text(0, 6) == some_prompt(6, 211));
}
