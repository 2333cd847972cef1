#include "env_check/report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "env_check/compatibility.hpp"

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

std::string fit_text(const CodeFit& fit) {
  switch (fit.fit) {
    case Fit::kRuns:
      return "runs (" + code_name(fit.code) + ")";
    case Fit::kJit:
      return "runs after the driver has compiled " + code_name(fit.code);
    case Fit::kPtxTooNew:
      return "will not run: " + code_name(fit.code) + " is newer than the driver (error 222)";
    case Fit::kNoCode:
      return "will not run: no code for it (error 209)";
  }
  return "";
}

std::string count_text(int n, const char* noun) { return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s"); }

std::string clean(std::string text) {
  for (char& c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f) c = '?';
  return text;
}

class Text {
 public:
  explicit Text(const ReportStyle& style) : style_(style) {}
  void line(const std::string& text) { out_ += clean_line(text) + "\n"; }
  void coloured(const char* code, const std::string& mark, const std::string& rest) {
    const std::string shown = clean_line(mark);
    out_ += (style_.colour ? fmt::format("\033[{}m{}\033[0m", code, shown) : shown) + clean_line(rest) + "\n";
  }
  void fact(const std::string& name, const std::string& value) {
    if (!value.empty()) line(fmt::format("  {:<12}{}", name, value));
  }
  std::string take() { return std::move(out_); }

 private:
  static std::string clean_line(const std::string& text) {
    std::string shown = clean(text);
    for (char& c : shown)
      if (c == '\n') c = ' ';
    return shown;
  }
  const ReportStyle& style_;
  std::string out_;
};

std::string driver_text(const Facts& f) {
  const std::string version = driver_version(f);
  const Version cuda = driver_cuda(f);
  if (version.empty() && !cuda.known()) return f.driver.state.empty() ? "unknown" : "none that works";
  std::string text = version.empty() ? "of unknown version" : version;
  if (f.module.open) text += *f.module.open ? ", open kernel modules" : ", proprietary kernel modules";
  if (cuda.known()) text += ", runs CUDA up to " + cuda.text();
  return text;
}

void summary(Text& t, const Facts& f) {
  t.line("Facts");
  std::string system = fmt::format("Linux {} {}, {}", f.system.kernel, f.system.machine, f.system.distribution);
  if (f.system.wsl) system += ", WSL";
  if (!f.system.container.empty()) system += ", container (" + f.system.container + ")";
  t.fact("system", system);
  t.fact("driver", driver_text(f));
  const std::vector<Card> cards = cards_of(f);
  for (const Card& card : cards)
    t.fact("card", fmt::format("{}, sm_{}{}", card.name, card.arch, card.guessed ? " by its PCI id" : ""));
  if (cards.empty()) t.fact("card", "none visible");
  const Toolkit* build = build_toolkit(f);
  if (!build) t.fact("toolkit", "none found");
  for (const Toolkit& k : f.toolkits) {
    std::string text = fmt::format("CUDA {}, {} (from {})", k.version.empty() ? "?" : k.version, k.nvcc, k.from);
    if (const auto archs = archs_of(k))
      text += fmt::format(", compiles for sm_{} to sm_{}", archs->lowest(), archs->highest());
    if (&k == build) text += " — builds take this one";
    t.fact("toolkit", text);
  }
  if (!f.compiler.path.empty())
    t.fact("compiler",
           fmt::format("{} {}, {} (from {})", f.compiler.kind, f.compiler.version, f.compiler.path, f.compiler.from));
  const std::string archs = cuda_architectures(f);
  if (!archs.empty()) t.fact("build with", fmt::format("-DCMAKE_CUDA_ARCHITECTURES=\"{}\"", archs));
  for (const Binary& b : f.binaries) {
    t.fact("program", b.path + (b.error.empty() ? "" : ": " + b.error));
    t.fact("", "  device code: " + code_list(b.code));
    for (const Card& card : cards)
      if (!b.code.empty())
        t.fact("", fmt::format("  {} (sm_{}): {}", card.name, card.arch,
                               fit_text(best_fit(b.code, card.arch, driver_cuda(f)))));
    for (const NeededLibrary& n : b.needed)
      t.fact("", fmt::format("  {} → {}", n.name, n.path.empty() ? "not found" : n.path + " (" + n.why + ")"));
  }
}

}  // namespace

std::string verdict_line(const Facts& facts, const std::vector<Finding>& findings) {
  int errors = 0, warnings = 0;
  for (const Finding& x : findings) {
    errors += x.severity == Severity::kError;
    warnings += x.severity == Severity::kWarning;
  }
  if (errors + warnings > 0) {
    std::string counts = errors > 0 ? count_text(errors, "error") : "";
    if (warnings > 0) counts += (counts.empty() ? "" : ", ") + count_text(warnings, "warning");
    return clean(fmt::format("TROUBLE: {} ({})", findings[0].what, counts));
  }
  std::string cards;
  for (const Card& card : cards_of(facts)) {
    const std::string text = fmt::format("{} (sm_{})", card.name, card.arch);
    if (cards.find(text) == std::string::npos) cards += (cards.empty() ? "" : ", ") + text;
  }
  const Toolkit* toolkit = build_toolkit(facts);
  return clean(fmt::format("HEALTHY: {}, driver {}, {}", cards.empty() ? "no card" : cards, driver_text(facts),
                           toolkit ? "toolkit " + toolkit->version : "no toolkit"));
}

std::string text_report(const Facts& facts, const std::vector<Finding>& findings, const ReportStyle& style) {
  Text t(style);
  t.coloured(healthy(findings) ? "1;32" : "1;31", verdict_line(facts, findings), "");
  for (const Finding& x : findings) {
    t.line("");
    const bool error = x.severity == Severity::kError, warning = x.severity == Severity::kWarning;
    t.coloured(error     ? "1;31"
               : warning ? "1;33"
                         : "1;36",
               error     ? "ERROR"
               : warning ? "WARNING"
                         : "NOTE",
               fmt::format(" {}: {}", x.id, x.what));
    for (const std::string& line : x.how) t.line("  seen  " + line);
    for (const std::string& line : x.fix) t.line("  fix   " + line);
  }
  t.line("");
  summary(t, facts);
  if (style.verbose) {
    t.line("");
    t.line("All facts");
    std::string all = to_json(facts).dump(1, ' ', true, json::error_handler_t::replace);
    return t.take() + all + "\n";
  }
  return t.take();
}

json json_report(const Facts& facts, const std::vector<Finding>& findings) {
  json out = {{"schema", 1},
              {"verdict", healthy(findings) ? "healthy" : "trouble"},
              {"summary", verdict_line(facts, findings)},
              {"findings", json::array()},
              {"driver", {{"version", driver_version(facts)}, {"cuda", driver_cuda(facts).text()}}},
              {"cuda_architectures", cuda_architectures(facts)},
              {"nvcc", build_toolkit(facts) ? build_toolkit(facts)->nvcc : ""},
              {"cards", json::array()},
              {"programs", json::array()},
              {"facts", to_json(facts)}};
  for (const Finding& x : findings)
    out["findings"].push_back(
        {{"id", x.id}, {"severity", severity_name(x.severity)}, {"what", x.what}, {"how", x.how}, {"fix", x.fix}});
  for (const Card& card : cards_of(facts))
    out["cards"].push_back({{"name", card.name}, {"arch", card.arch}, {"guessed", card.guessed}});
  for (const Binary& b : facts.binaries) {
    json program = {{"path", b.path}, {"code", json::array()}, {"cards", json::array()}};
    for (const DeviceCode& code : b.code) program["code"].push_back(code_name(code));
    for (const Card& card : cards_of(facts))
      program["cards"].push_back(
          {{"arch", card.arch}, {"fit", fit_name(best_fit(b.code, card.arch, driver_cuda(facts)).fit)}});
    out["programs"].push_back(program);
  }
  return out;
}

}  // namespace env_check
