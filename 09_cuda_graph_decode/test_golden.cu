// The shipped model against the golden file that Hugging Face transformers made in fp32 (tools/make_golden.py).
#include <fstream>
#include <nlohmann/json.hpp>

#include "09_cuda_graph_decode/answer.hpp"
#include "09_cuda_graph_decode/decoder.cuh"
#include "common/catch.hpp"
#include "common/thin_tests.hpp"

namespace {

nlohmann::json golden() {
  std::ifstream file(std::string(TINY_QWEN_DIR) + "/golden.json");
  return nlohmann::json::parse(file);
}

// float32 [rows, cols] of a .npy file of version 1.0.
std::vector<std::vector<float>> read_npy(const std::string& path, size_t cols) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  const size_t start = 10 + static_cast<unsigned char>(bytes.at(8)) + 256u * static_cast<unsigned char>(bytes.at(9));
  std::vector<std::vector<float>> rows;
  for (size_t at = start; at + 4 * cols <= bytes.size(); at += 4 * cols) {
    rows.emplace_back(cols);
    std::memcpy(rows.back().data(), bytes.data() + at, 4 * cols);
  }
  return rows;
}

std::vector<int> continuation(Decoder& decoder, const std::vector<int>& prompt, int count) {
  decoder.prefill(prompt);
  std::vector<int> ids;
  for (int i = 0; i < count; ++i) {
    ids.push_back(decoder.next_token());
    decoder.step();
  }
  return ids;
}

void check_golden(const DecoderOptions& options, size_t most_prompts) {
  const Weights weights = load_weights(CommandLine());
  Decoder decoder(weights, 256, options);
  const nlohmann::json file = golden();
  REQUIRE(file["prompts"].size() == 20);
  for (size_t i = 0; i < std::min(most_prompts, file["prompts"].size()); ++i) {
    const auto& prompt = file["prompts"][i];
    INFO(prompt["question"].get<std::string>());
    std::vector<int> want = prompt["ids"];
    REQUIRE(want.size() == 64);
    if (thin_tests()) want.resize(8);
    CHECK(continuation(decoder, prompt["prompt_ids"], static_cast<int>(want.size())) == want);
  }
}

}  // namespace

TEST_CASE("09 shipped model, graph: the golden tokens, prompt after prompt on one decoder") {
  check_golden(DecoderOptions(), thin_tests() ? 1 : 20);
}

TEST_CASE("09 shipped model, eager: the golden tokens") {
  DecoderOptions options;
  options.graph = options.pdl = false;
  check_golden(options, large_tests() ? 20 : 1);  // on the executor a graph is the same list of launches
}

TEST_CASE("09 shipped model: logits close to those of Hugging Face in fp32") {
  const nlohmann::json file = golden();
  const Weights weights = load_weights(CommandLine());
  Decoder decoder(weights, 256, DecoderOptions());
  const auto want = read_npy(std::string(TINY_QWEN_DIR) + "/" + file["logits"]["file"].get<std::string>(),
                             size_t(weights.config().vocab));
  REQUIRE(want.size() == file["logits"]["steps"].get<size_t>());
  const auto& prompt = file["prompts"][file["logits"]["prompt"].get<size_t>()];
  const std::vector<int> ids = prompt["ids"];
  decoder.prefill(prompt["prompt_ids"]);
  for (size_t step = 0; step < want.size(); ++step) {
    const std::vector<float> got = decoder.logits();
    double difference = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      difference += std::fabs(double(got[i]) - want[step][i]);
      size += std::fabs(double(want[step][i]));
    }
    INFO("step " << step << ": mean |Δ| / mean |logit| = " << difference / size);
    CHECK(difference / size < 0.02);  // bfloat16 between the kernels
    decoder.replace_next_token(ids[step]);
    decoder.step();
  }
}

TEST_CASE("09 shipped model: the tokenizer gives the golden prompt ids, and every answer reads as written") {
  const Tokenizer tokenizer = load_tokenizer(CommandLine());
  const nlohmann::json file = golden();  // named: a temporary would be gone before the loop begins
  REQUIRE(file["prompts"].size() == 20);
  for (const auto& prompt : file["prompts"]) {
    CHECK(tokenizer.encode(prompt["prompt"].get<std::string>()) == prompt["prompt_ids"].get<std::vector<int>>());
    const std::vector<int> ids = prompt["ids"];
    const std::string text = tokenizer.decode(ids, true), answer = prompt["answer"];
    CHECK(text.compare(0, answer.size(), answer) == 0);
  }
}
