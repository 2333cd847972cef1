// 09 · the ladder: the same model and prompt, one earlier kernel swapped in a row, every row's tokens compared
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "09_cuda_graph_decode/decoder.cuh"

struct LadderRung {
  std::string name;  // gemm01 … gemm04, attention, operators, graph, pdl, default
  std::string what;  // what changed against the rung before
  DecoderOptions options;
};
std::vector<LadderRung> ladder_rungs();

struct LadderOptions {
  int context = 256;    // tokens of the prompt
  int new_tokens = 64;  // tokens every rung has to agree on; all of them are timed
};

// Runs every rung, prints the table, appends one row a rung to `rows` (common/step.hpp names the fields). Returns whether
// all rungs produced the same tokens. A rung that needs more memory than there is is skipped with the reason.
bool run_ladder(const Weights& weights, const LadderOptions& options, nlohmann::json& rows);

// A prompt of made-up tokens from which greedy decoding meets no near tie (ladder.cu).
std::vector<int> made_up_prompt(int length, int vocab);

// The same for prefill (prefill_ladder.cu): prompts of several lengths, one change a rung. Returns whether the logits of
// all rungs agree; they are sums in another order, so not bit by bit.
bool run_prefill_ladder(const Weights& weights, nlohmann::json& rows);
