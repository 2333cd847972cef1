#include "09_cuda_graph_decode/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "common/error.hpp"

CommandLine parse_command_line(int argc, char** argv) {
  CommandLine c;
  CLI::App app{"Step 09: a Qwen decoder on the kernels of all steps before it"};
  auto* model = app.add_option("--model", c.model, "Hugging Face folder; without it the shipped model");
  app.add_option("--random", c.random, "seeded random weights of this shape instead of a folder")
      ->check(CLI::IsMember({"article"}))
      ->excludes(model);
  app.add_option("--tokenizer", c.tokenizer, "folder or tokenizer.json; without it the model's");
  auto* prompt = app.add_option("--prompt", c.prompt, "text to continue, or the question of a chat");
  auto* prompt_file = app.add_option("--prompt-file", c.prompt_file, "the same, read from a file")->excludes(prompt);
  app.add_option("--tokens", c.tokens, "the prompt as token ids: 1,2,3")
      ->delimiter(',')
      ->excludes(prompt)
      ->excludes(prompt_file);
  app.add_flag("--chat", c.chat, "put the prompt into Qwen's chat template (always so for the shipped model)");
  app.add_option("--max-new-tokens", c.max_new_tokens, "most tokens to generate")->check(CLI::Range(1, 1 << 24));
  app.add_option("--context", c.context, "tokens the KV cache holds; without it prompt + new tokens")
      ->check(CLI::Range(2, 1 << 24));
  app.add_option("--temperature", c.sampling.temperature, "0: greedy")->check(CLI::Range(0.0, 100.0));
  app.add_option("--top-k", c.sampling.top_k, "sample among the k most likely; 0: all")->check(CLI::Range(0, 1 << 24));
  app.add_option("--top-p", c.sampling.top_p, "… among the fewest that have this probability")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", c.seed, "of the sampling and of random weights");
  app.add_option("--order-seed", c.order_seed, "executor: shuffle the order of blocks by this seed");
  app.add_flag("--ignore-eos", c.ignore_eos, "go on behind the end of the text");
  app.add_option("--gemm", c.gemm, "linear layers by the GEMM of this step, in fp32; best: step 08's, in bfloat16")
      ->check(CLI::IsMember({"01", "02", "03", "04", "best"}));
  app.add_option("--attention", c.attention, "unfused: GEMM, softmax, GEMM through a score matrix")
      ->check(CLI::IsMember({"fused", "unfused"}));
  app.add_flag("--no-graph", c.no_graph, "launch every kernel of a step from the host");
  app.add_flag("--no-pdl", c.no_pdl, "no programmatic dependent launch");
  app.add_flag("--ladder", c.ladder,
               "one earlier kernel swapped in a row; article shape on a GPU, else the shipped model");
  app.add_option("--json", c.json_file, "write the measured rows to this file");
  app.add_option("--logits", c.logits_file, "write float32 [steps, vocabulary] to this .npy file");
  app.add_option("--teacher-force", c.forced, "feed these ids instead of the chosen ones: 1,2,3")->delimiter(',');
  auto* encode = app.add_option("--encode", c.encode, "print the token ids of this text and stop");
  app.add_option("--decode", c.decode, "print the text of these ids and stop: 1,2,3")->delimiter(',')->excludes(encode);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    std::exit(app.exit(help));
  } catch (const CLI::ParseError& error) {
    std::string line = error.what();
    line = line.substr(0, line.find('\n'));
    throw BadInput(line);
  }
  c.has_encode = encode->count() > 0;
  c.nothing_given = argc == 1;
  for (int i = 0; i < argc; ++i) c.text += (i ? " " : "") + std::string(i ? argv[i] : "step09");
  return c;
}
