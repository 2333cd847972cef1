// The report for programs. What it holds is in report.hpp, and test_report.cpp compares the two.
#include <nlohmann/json.hpp>

#include "env_check/compatibility.hpp"
#include "env_check/diagnosis.hpp"
#include "env_check/report.hpp"

namespace env_check {
namespace {

using nlohmann::json;

const char* severity_name(Severity severity) {
  return severity == Severity::kError ? "error" : severity == Severity::kWarning ? "warning" : "note";
}

const char* fit_name(Fit fit) {
  switch (fit) {
    case Fit::kRuns:
      return "runs";
    case Fit::kJit:
      return "jit";
    case Fit::kPtxTooNew:
      return "ptx_too_new";
    case Fit::kNoCode:
      return "no_code";
  }
  return "";
}

json names(const std::vector<DeviceCode>& code) {
  json out = json::array();
  for (const DeviceCode& entry : code) out.push_back(code_name(entry));
  return out;
}

json fits(const Facts& facts, const std::vector<DeviceCode>& code) {
  json out = json::array();
  for (const Card& card : cards_of(facts))
    out.push_back({{"arch", card.arch}, {"fit", fit_name(best_fit(code, card.arch, driver_cuda(facts)).fit)}});
  return out;
}

json counters_json(const Facts& facts) {
  const Counters c = counters_of(facts);
  return {{"readable", c.readable ? json(*c.readable) : json(nullptr)}, {"how", c.how}, {"fix", c.fix}};
}

json python_json(const Facts& facts) {
  const Python& p = facts.python;
  if (p.torch.empty()) return nullptr;
  return {{"path", p.path},
          {"torch", p.version},
          {"cuda", p.cuda},
          {"code", names(p.code)},
          {"cards", fits(facts, p.code)}};
}

}  // namespace

json json_report(const Facts& facts, const std::vector<Finding>& findings) {
  json out = {{"schema", 1},
              {"verdict", healthy(findings) ? "healthy" : "trouble"},
              {"summary", verdict_line(facts, findings)},
              {"findings", json::array()},
              {"driver", {{"version", driver_version(facts)}, {"cuda", driver_cuda(facts).text()}}},
              {"cuda_architectures", cuda_architectures(facts)},
              {"nvcc", build_toolkit(facts) ? build_toolkit(facts)->nvcc : ""},
              {"toolkits", json::array()},
              {"counters", counters_json(facts)},
              {"python", python_json(facts)},
              {"cards", json::array()},
              {"programs", json::array()},
              {"facts", to_json(facts)}};
  for (const Finding& x : findings)
    out["findings"].push_back(
        {{"id", x.id}, {"severity", severity_name(x.severity)}, {"what", x.what}, {"how", x.how}, {"fix", x.fix}});
  for (const Toolkit& t : facts.toolkits) {
    const auto archs = archs_of(t);
    const Version release = Version(t.version).release();
    out["toolkits"].push_back({{"version", t.version},
                               {"nvcc", t.nvcc},
                               {"from", t.from},
                               {"archs", archs ? archs->archs : std::vector<std::string>()},
                               {"driver", driver_for_toolkit(release, facts.system.wsl)},
                               {"oldest_driver", oldest_driver_for_major(release.major(), facts.system.wsl)}});
  }
  for (const Card& card : cards_of(facts))
    out["cards"].push_back({{"name", card.name}, {"arch", card.arch}, {"guessed", card.guessed}});
  for (const Binary& b : facts.binaries) {
    json program = {{"path", b.path},
                    {"kind", b.kind},
                    {"error", b.error},
                    {"code", names(b.code)},
                    {"cards", fits(facts, b.code)},
                    {"libraries", json::array()}};
    for (const NeededLibrary& n : b.needed)
      program["libraries"].push_back({{"name", n.name}, {"path", n.path}, {"why", n.why}});
    out["programs"].push_back(program);
  }
  return out;
}

}  // namespace env_check
