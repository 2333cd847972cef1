// 09 · a whole Qwen decoder on the kernels of all steps before it, one CUDA Graph launch a token
//
// Run: make run                                    the shipped model answers a question
//      make run PROMPT="What is a bank conflict?"  another one
//      make step09                                 the ladder: one earlier kernel swapped in a row
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "09_cuda_graph_decode/answer.hpp"
#include "09_cuda_graph_decode/command_line.hpp"
#include "09_cuda_graph_decode/ladder.hpp"
#include "09_cuda_graph_decode/tokenizer.hpp"
#include "common/program.hpp"

namespace {

int encode_or_decode(const CommandLine& c) {
  const Tokenizer tokenizer = load_tokenizer(c);
  if (!c.has_encode) {
    fmt::print("{}\n", tokenizer.decode(c.decode));
    return kOk;
  }
  const std::vector<int> ids = tokenizer.encode(c.encode);
  fmt::print("{}\n", fmt::join(ids, ","));
  return kOk;
}

bool climb_ladder(const CommandLine& c, nlohmann::json& rows) {
  CommandLine model = c;
  if (c.model.empty() && c.random.empty() && device().gpu) model.random = "article";
  LadderOptions options;
  if (!device().gpu) options = {16, 16};  // tokens only: a time would say nothing
  fmt::print("Step 09 · decode ladder, {:<20} {}\n", model.random.empty() ? "shipped model" : model.random,
             machine_text());
  const Weights weights = load_weights(model);
  const bool decode = run_ladder(weights, options, rows), prefill = run_prefill_ladder(weights, rows);
  return decode && prefill;
}

int run(int argc, char** argv) {
  const CommandLine c = parse_command_line(argc, argv);
  if (c.has_encode || !c.decode.empty()) return encode_or_decode(c);
  if (const std::string reason = why_no_device(); !reason.empty()) {
    fmt::print(stderr, "{}. `make lab09` runs the same kernels on the CPU; `make env_check` says what is wrong.\n",
               reason);
    return kNothingRan;
  }
#if !ON_GPU
  simt::set_block_order(c.order_seed);
#endif
  nlohmann::json rows = nlohmann::json::array();
  int status = kOk;
  if (!c.ladder) status = answer(c, rows);
  if (status == kOk && (c.ladder || (c.nothing_given && device().gpu)) && !climb_ladder(c, rows)) status = kCheckFailed;
  if (!c.json_file.empty()) {
    std::ofstream file(c.json_file);
    file << nlohmann::json{{"machine", nlohmann::json::parse(machine_json())}, {"command", c.text}, {"rows", rows}}
                .dump(1)
         << "\n";
    if (!file.flush()) throw BadInput(fmt::format("--json {}: cannot be written", c.json_file));
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  return run_main([&] { return run(argc, argv); });
}
