#include "common/row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/program.hpp"
#include "common/roofline.hpp"
#if !ON_GPU
#include "common/simt/counts.hpp"
#include "common/simt/executor.hpp"
#endif

using nlohmann::json;

namespace {

// Runs `work` once and keeps what the executor counted in it.
void run_counted([[maybe_unused]] Row& row, const std::function<void()>& work) {
#if ON_GPU
  work();
#else
  const simt::Counters before = simt::counters();
  simt::take_counts();  // what was counted so far belongs to the reference
  work();
  row.kernels = simt::take_counts();
  const simt::Counters now = simt::counters();
  if (now.blocks > before.blocks)
    row.barriers_per_block = double(now.barriers - before.barriers) / double(now.blocks - before.blocks);
#endif
}

// The first row of that role that was timed, or null.
const Row* first(const std::vector<Row>& rows, Rung::Role role) {
  for (const Row& row : rows)
    if (row.rung->role == role && row.timing.seconds > 0) return &row;
  return nullptr;
}

double of_ceiling(const Step& step, const Row& row, double peak) {
  const double rate = step.memory_bound ? row.gbps() : row.gflops();
  return peak > 0 ? 1e9 * rate / peak : 0;
}

std::string ratio(double value, const char* unit) {
  return value > 0 ? fmt::format("{:.{}f}{}", value, unit[0] == '%' ? 1 : 2, unit) : "–";
}

std::string verdict(const Row& row) {
  return row.check.text() + (row.rung->note.empty() ? "" : " · " + row.rung->note);
}

}  // namespace

void print_timed(const Step& step, const std::vector<Row>& rows, double peak) {
  const Row *base = first(rows, Rung::kBaseline), *peer = first(rows, Rung::kPeer);
  const bool workspace = std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.rung->workspace > 0; });
  const std::string first_rate = step.memory_bound ? "GB/s" : "GFLOPS",
                    second_rate = step.memory_bound ? "GFLOPS" : "GB/s";
  fmt::print(" {:<38}{:>10}{:>9}{:>10}{:>10}{:>12}{:>12}{:>9}{}  check\n", "rung", "time ms", "spread", first_rate,
             second_rate, "vs before", "vs " + step.peer_name, step.memory_bound ? "of copy" : "of peak",
             workspace ? "   extra MB" : "");
  for (const Row& row : rows) {
    if (!row.rung->skip.empty()) {
      fmt::print(" {:<38}skipped: {}\n", row.rung->name, row.rung->skip);
      continue;
    }
    if (row.timing.seconds <= 0) {  // checked only, or wrong: no speed
      fmt::print(" {:<38}{:>10}  {}\n", row.rung->name, "–", verdict(row));
      continue;
    }
    const auto against = [&](const Row* other) { return other ? other->timing.seconds / row.timing.seconds : 0; };
    fmt::print(" {:<38}{:>10.4f}{:>9}{:>10.0f}{:>10.0f}{:>12}{:>12}{:>9}{}  {}\n", row.rung->name,
               1e3 * row.timing.seconds, ratio(100 * row.timing.spread, "%"),
               step.memory_bound ? row.gbps() : row.gflops(), step.memory_bound ? row.gflops() : row.gbps(),
               ratio(against(base), "×"), ratio(100 * against(peer), "%"),
               ratio(100 * of_ceiling(step, row, peak), "%"),
               workspace ? fmt::format("{:>11.1f}", row.rung->workspace / 1e6) : "", verdict(row));
  }
}

Row run_rung(const Problem& problem, const Rung& rung, int samples, Stream& stream) {
  Row row{&rung, {}, {}, rung.flop >= 0 ? rung.flop : problem.flop, rung.bytes >= 0 ? rung.bytes : problem.bytes};
  problem.poison();
  run_counted(row, [&] {
    rung.run(stream, 0);
    stream.synchronize();
  });
  row.check = rung.check();
  if (row.check.ok && samples > 0)
    row.timing = time_work(
        stream, samples, [&](int i) { rung.run(stream, i % problem.copies); }, !rung.on_host);
  return row;
}

double ceiling(const Step& step, const Problem& problem) {
  if (step.memory_bound) return measured_copy_bandwidth();
  return problem.dtype == "bf16" ? peak_bf16_flops(device()) : peak_fp32_flops(device());
}

lab::Rung lab_rung(const Row& row) {
  return {row.rung->name, row.check.text(), row.rung->note,         row.rung->skip,
          row.flop,       row.bytes,        row.barriers_per_block, row.kernels};
}

json row_json(const Step& step, const Problem& problem, const Row& row, const std::vector<Row>& rows, double peak) {
  const Row *base = first(rows, Rung::kBaseline), *peer = first(rows, Rung::kPeer);
  json j{{"step", step.number},
         {"rung", row.rung->name},
         {"shape", problem.shape},
         {"dtype", problem.dtype},
         {"memory_bound", step.memory_bound},
         {"checked", row.check.ok},
         {"max_abs", row.check.max_abs},
         {"mean_abs", row.check.mean_abs},
         {"of_tolerance", row.check.used},
         {"workspace_bytes", row.rung->workspace}};
  if (!row.rung->skip.empty()) j["skipped"] = row.rung->skip;
  if (!row.rung->note.empty()) j["note"] = row.rung->note;
  if (!row.kernels.empty()) j["counts"] = lab::counts_json(lab_rung(row));
  if (row.timing.seconds > 0) {
    j["ms"] = 1e3 * row.timing.seconds;
    j["spread"] = row.timing.spread;
    j["gflops"] = row.gflops();
    j["gbps"] = row.gbps();
    j["of_peak"] = of_ceiling(step, row, peak);
    if (base) j["baseline"] = base->rung->name, j["vs_baseline"] = base->timing.seconds / row.timing.seconds;
    if (peer) j["peer"] = peer->rung->name, j["vs_peer"] = peer->timing.seconds / row.timing.seconds;
  }
  j["machine"] = json::parse(machine_json());
  return j;
}
