// 09 · the options of step09 and lab09
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "05_online_softmax/sampling.hpp"

struct CommandLine {
  std::string model;      // a Hugging Face folder; empty: the checkpoint that ships with the repository
  std::string random;     // "article": that shape with seeded random weights, instead of a folder
  std::string tokenizer;  // a folder or tokenizer.json; empty: the model's folder
  std::string prompt, prompt_file;
  std::vector<int> tokens;  // the prompt as ids
  bool chat = false;        // put the prompt into Qwen's chat template
  int max_new_tokens = 64;
  int context = 0;                    // tokens the KV cache holds; 0: prompt and new tokens
  SamplingOptions sampling{0, 0, 1};  // greedy
  uint64_t seed = 1;
  uint64_t order_seed = 0;  // executor: 0 starts blocks in ascending order
  bool ignore_eos = false;
  std::string gemm = "best";        // 01, 02, 03, 04 or best
  std::string attention = "fused";  // fused or unfused
  bool no_graph = false, no_pdl = false;
  bool ladder = false;
  std::string json_file, logits_file;
  std::vector<int> forced;  // --teacher-force
  std::string encode;       // print the ids of this text
  bool has_encode = false;
  std::vector<int> decode;     // print the text of these ids
  bool nothing_given = false;  // no option at all
  std::string text;            // the command as typed, for results files
};

// Throws BadInput, in one line, for an unknown option, a bad value, or options that exclude each other.
// --help prints and ends the program with status 0.
CommandLine parse_command_line(int argc, char** argv);
