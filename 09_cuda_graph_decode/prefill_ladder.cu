// 09 · the ladder of prefill: a prompt read by one decoder after another, one change a row
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "09_cuda_graph_decode/ladder.hpp"
#include "common/bench.hpp"
#include "common/program.hpp"

namespace {

constexpr int kSamples = 9;

std::vector<LadderRung> prefill_rungs() {
  DecoderOptions o;
  o.wgmma = o.wgmma_attention = o.pdl = o.graph = false;
  std::vector<LadderRung> rungs;
  const auto add = [&](const char* name, const char* what) { rungs.push_back({name, what, o}); };
  add("mma.sync", "step 08's portable GEMM, 06's attention");
  o.wgmma = true;
  add("wgmma", "step 08's Hopper GEMM");
  o.wgmma_attention = true;
  add("attention", "step 06's Hopper attention");
  o.pdl = true;
  add("pdl", "dependent launch");
  o.graph = true;
  add("graph", "one graph for the first piece of a prompt");
  return rungs;
}

// Multiplications and additions of one prompt: every linear layer, the causal half of attention, one row of logits.
double prefill_flop(const ModelConfig& c, double tokens) {
  const double q = c.q_width(), kv = c.kv_width(), hidden = c.hidden;
  const double layer = hidden * (q + 2 * kv) + q * hidden + 3.0 * hidden * c.intermediate;
  return c.layers * (2 * tokens * layer + 2 * tokens * tokens * q) + 2 * hidden * c.vocab;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) difference += std::pow(a[i] - b[i], 2), size += std::pow(b[i], 2);
  return std::sqrt(difference / size);
}

double median_seconds(Decoder& decoder, const std::vector<int>& prompt) {
  std::vector<double> times;
  for (int i = 0; i < kSamples; ++i) times.push_back(time_once(decoder.stream(), [&] { decoder.prefill(prompt); }));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

bool run_prefill_ladder(const Weights& weights, nlohmann::json& rows) {
  const std::vector<int> lengths = device().gpu ? std::vector<int>{256, 512, 2048} : std::vector<int>{16};
  const double most = 1e-2;  // of the logits' norm: bfloat16 keeps 8 bits, and every layer rounds a few times
  bool all_agree = true;
  fmt::print("\n prefill, batch 1\n {:<11}{:<44}{:>7}{:>10}{:>11}{:>10}  logits\n", "rung", "what changed", "tokens",
             "ms", "tokens/s", "TFLOP/s");
  for (const int length : lengths) {
    const std::vector<int> prompt = made_up_prompt(length, weights.config().vocab);
    std::vector<float> expected;
    for (const LadderRung& rung : prefill_rungs()) {
      Decoder decoder(weights, length + 1, rung.options);
      decoder.prefill(prompt);
      const std::vector<float> logits = decoder.logits();
      if (expected.empty()) expected = logits;
      const double difference = relative_difference(logits, expected);
      const bool agree = difference <= most;
      all_agree = all_agree && agree;
      const double seconds = device().gpu ? median_seconds(decoder, prompt) : 0;
      const auto cell = [&](double value, int digits) {
        return seconds > 0 ? fmt::format("{:.{}f}", value, digits) : "–";
      };
      const double flop = prefill_flop(weights.config(), length);
      fmt::print(" {:<11}{:<44}{:>7}{:>10}{:>11}{:>10}  {}\n", rung.name, rung.what, length, cell(1e3 * seconds, 3),
                 cell(length / seconds, 0), cell(1e-12 * flop / seconds, 1),
                 agree ? "agree" : fmt::format("DIFFER by {:.2g} of their norm, allowed are {:.2g}", difference, most));
      nlohmann::json row{{"step", "09"},
                         {"rung", "prefill: " + rung.name},
                         {"shape", fmt::format("prefill n={}", length)},
                         {"dtype", "bf16"},
                         {"checked", agree},
                         {"machine", nlohmann::json::parse(machine_json())}};
      if (seconds > 0) {
        row["ms"] = 1e3 * seconds;
        row["tokens_per_s"] = length / seconds;
        row["gflops"] = 1e-9 * flop / seconds;
      }
      rows.push_back(row);
    }
  }
  return all_agree;
}
