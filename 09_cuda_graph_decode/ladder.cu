#include "09_cuda_graph_decode/ladder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/bench.hpp"
#include "common/program.hpp"
#include "common/roofline.hpp"

namespace {

constexpr int kWindow = 8;  // steps timed together, so that one launch hides behind the step before

struct Measured {
  std::vector<int> tokens;
  double step_seconds = 0;
  int launches = 0;
};

// Greedy decoding of random weights meets near ties, and rungs that round differently may fall to either side of one.
// From this start the two best logits of the article's shape (seed 1, context 256) are at least 0.019 apart in all 66
// steps, the widest of 300 starts whose text does not stand still.
constexpr long long kPromptStart = 69 * 256;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

Measured measure(const Weights& weights, const LadderRung& rung, const LadderOptions& options) {
  Decoder decoder(weights, options.context + options.new_tokens + kWindow, rung.options);
  const std::vector<int> prompt = made_up_prompt(options.context, weights.config().vocab);
  Measured m;
  m.launches = decoder.launches_per_token();
  decoder.prefill(prompt);
  std::vector<double> times;
  for (int done = 0; done < options.new_tokens; done += kWindow)
    times.push_back(time_once(decoder.stream(),
                              [&] {
                                for (int i = 0; i < kWindow; ++i) decoder.step();
                              }) /
                    kWindow);
  m.step_seconds = median(times);
  m.tokens = decoder.text(options.context, options.context + options.new_tokens);
  return m;
}

nlohmann::json row_json(const LadderRung& rung, const std::string& shape, double seconds, double bytes, double floor,
                        int launches, bool equal) {
  nlohmann::json row{{"step", "09"},
                     {"rung", rung.name},
                     {"shape", shape},
                     {"dtype", "bf16"},
                     {"launches", launches},
                     {"checked", equal},
                     {"machine", nlohmann::json::parse(machine_json())}};
  if (seconds > 0) {
    row["ms"] = 1e3 * seconds;
    row["tokens_per_s"] = 1 / seconds;
    row["gbps"] = 1e-9 * bytes / seconds;
    row["of_floor"] = floor / seconds;
  }
  return row;
}

}  // namespace

std::vector<int> made_up_prompt(int length, int vocab) {
  std::vector<int> ids;
  for (int i = 0; i < length; ++i) ids.push_back(static_cast<int>((7919 * (kPromptStart + i) + 13) % vocab));
  return ids;
}

std::vector<LadderRung> ladder_rungs() {
  DecoderOptions o;
  o.fused_attention = o.fused_operators = o.graph = o.pdl = false;
  std::vector<LadderRung> rungs;
  const auto add = [&](const char* name, const char* what) { rungs.push_back({name, what, o}); };
  o.fp32_gemm = gemm_of_step("01");
  add("gemm01", "step 01's GEMM, fp32 weights");
  o.fp32_gemm = gemm_of_step("02");
  add("gemm02", "step 02's register tile");
  o.fp32_gemm = gemm_of_step("03");
  add("gemm03", "step 03's padding");
  o.fp32_gemm = gemm_of_step("04");
  add("gemm04", "step 04's warp tile");
  o.fused_attention = true;
  add("attention", "step 06's split-KV attention");
  o.fp32_gemm = nullptr;
  o.fused_operators = true;
  add("operators", "step 08's fused bf16 GEMVs");
  o.graph = true;
  add("graph", "one CUDA Graph launch a token");
  o.pdl = true;
  add("pdl", "dependent launch, weights before the wait");
  rungs.push_back({"default", "what step09 runs", DecoderOptions()});
  return rungs;
}

bool run_ladder(const Weights& weights, const LadderOptions& options, nlohmann::json& rows) {
  // a model that stays in the L2 cache has no floor in memory
  const double read = weights.bytes_per_token() > device().l2_bytes ? measured_read_bandwidth() : 0;
  std::vector<int> expected;
  bool all_equal = true;
  fmt::print(" decode, batch 1, context {} + {}, {:.3f} GB of weights a token\n", options.context, options.new_tokens,
             1e-9 * double(weights.bytes_per_token()));
  fmt::print(" {:<11}{:<44}{:>9}{:>11}{:>11}{:>8}{:>10}  tokens\n", "rung", "what changed", "launches", "ms/token",
             "tokens/s", "GB/s", "of floor");
  for (const LadderRung& rung : ladder_rungs()) {
    Measured m;
    try {
      m = measure(weights, rung, options);
    } catch (const EnvironmentError& error) {
      fmt::print(" {:<11}{:<44}skipped: {}\n", rung.name, rung.what, error.what());
      continue;
    }
    if (expected.empty()) expected = m.tokens;
    const auto difference = std::mismatch(expected.begin(), expected.end(), m.tokens.begin()).first;
    const bool equal = difference == expected.end();
    all_equal = all_equal && equal;
    // keys and values of the middle of the run are read as well
    const ModelConfig& c = weights.config();
    const double kv = 4.0 * c.layers * c.kv_width() * (options.context + options.new_tokens / 2.0);
    const double bytes = double(weights.bytes_per_token()) + kv, floor = read > 0 ? bytes / read : 0;
    const auto cell = [&](double value, int digits) {
      return m.step_seconds > 0 ? fmt::format("{:.{}f}", value, digits) : "–";
    };
    fmt::print(" {:<11}{:<44}{:>9}{:>11}{:>11}{:>8}{:>10}  {}\n", rung.name, rung.what, m.launches,
               cell(1e3 * m.step_seconds, 4), cell(1 / m.step_seconds, 0), cell(1e-9 * bytes / m.step_seconds, 0),
               cell(100 * floor / m.step_seconds, 1) + (m.step_seconds > 0 ? "%" : ""),
               equal ? "equal" : fmt::format("DIFFER from token {}", difference - expected.begin()));
    rows.push_back(
        row_json(rung, fmt::format("decode ctx={}", options.context), m.step_seconds, bytes, floor, m.launches, equal));
  }
  if (read > 0) fmt::print(" floor: the bytes above at {:.0f} GB/s, a read measured in this run\n", 1e-9 * read);
  return all_equal;
}
