#include "env_check/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "env_check/compatibility.hpp"
#include "env_check/diagnosis.hpp"

namespace env_check {
namespace {

using nlohmann::json;

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

// A facts file may come from anybody: no control character reaches the terminal, C1 (U+0080 to U+009F) and the ones that
// turn the direction of writing (U+202A to U+202E, U+2066 to U+2069) among them.
std::string clean(std::string text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (size_t i = 0; i < text.size(); ++i) {
    if ((byte(i) < 0x20 && text[i] != '\n') || byte(i) == 0x7f) text[i] = '?';
    const bool c1 = byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) <= 0x9f;
    const bool turns = byte(i) == 0xe2 && ((byte(i + 1) == 0x80 && byte(i + 2) >= 0xaa && byte(i + 2) <= 0xae) ||
                                           (byte(i + 1) == 0x81 && byte(i + 2) >= 0xa6 && byte(i + 2) <= 0xa9));
    if (c1) text.replace(i, 2, "?");
    if (turns) text.replace(i, 3, "?");
  }
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
    constexpr size_t most = 1000;
    if (shown.size() <= most) return shown;
    size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xc0) == 0x80) --end;  // not inside a character
    return shown.substr(0, end) + "…";
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

std::vector<std::string> libraries(const Binary& b) {
  std::vector<std::string> lines;
  const bool own_runtime = std::any_of(b.needed.begin(), b.needed.end(),
                                       [](const NeededLibrary& n) { return n.name.rfind("libcudart.so", 0) == 0; });
  if (!b.code.empty() && !own_runtime && b.kind == "program") lines.push_back("libcudart: linked into the file");
  for (const NeededLibrary& n : b.needed) {
    std::string line = n.name + " → " + (n.path.empty() ? "not found" : n.path + " (" + n.why + ")");
    if (!n.real.empty() && n.real != n.path) line += ", which is " + n.real;
    if (!n.by.empty()) line += ", for " + n.by;
    if (!n.instead.empty()) line += "; otherwise " + n.instead;
    lines.push_back(line);
  }
  return lines;
}

// For each card: runs, runs after JIT, or will not run, and why.
void fits(Text& t, const Facts& f, const std::vector<DeviceCode>& code) {
  if (code.empty()) return;
  t.fact("", "  device code: " + code_list(code));
  for (const Card& card : cards_of(f))
    t.fact("",
           fmt::format("  {} (sm_{}): {}", card.name, card.arch, fit_text(best_fit(code, card.arch, driver_cuda(f)))));
}

void toolkits(Text& t, const Facts& f) {
  if (f.toolkits.empty()) t.fact("toolkit", "none found");
  for (const Toolkit& k : f.toolkits) {
    const Version version(k.version);
    std::string text = fmt::format("CUDA {}, {} (from {})", k.version.empty() ? "?" : k.version, k.nvcc, k.from);
    if (const auto archs = archs_of(k))
      text += fmt::format(", compiles for sm_{} to sm_{}", archs->lowest(), archs->highest());
    if (&k == build_toolkit(f)) text += " — builds take this one";
    t.fact("toolkit", text);
    const std::string all = driver_for_toolkit(version.release(), f.system.wsl);
    const std::string least = version.known() ? oldest_driver_for_major(version.major(), f.system.wsl) : "";
    if (!least.empty())
      t.fact("", fmt::format("  its programs start with driver {} or newer{}", least,
                             all.empty() || all == least ? "" : ", its PTX needs " + all));
  }
}

// Programs that hold the same code and load the same libraries are shown together.
void programs(Text& t, const Facts& f) {
  for (size_t i = 0; i < f.binaries.size();) {
    const Binary& b = f.binaries[i];
    const auto same = [&](const Binary& other) {
      return b.error.empty() && other.error.empty() && code_list(other.code) == code_list(b.code) &&
             libraries(other) == libraries(b);
    };
    size_t end = i + 1;
    while (end < f.binaries.size() && same(f.binaries[end])) ++end;
    std::string name = b.path + (b.error.empty() ? "" : ": " + b.error);
    if (end - i > 1) name += fmt::format(" to {} ({} programs)", f.binaries[end - 1].path, end - i);
    t.fact("program", name);
    if (b.code.empty()) t.fact("", "  device code: none");
    fits(t, f, b.code);
    for (const std::string& line : libraries(b)) t.fact("", "  " + line);
    i = end;
  }
}

void summary(Text& t, const Facts& f) {
  t.line("Facts");
  std::string system = fmt::format("Linux {} {}, {}", f.system.kernel, f.system.machine, f.system.distribution);
  if (f.system.wsl) system += ", WSL";
  if (!f.system.l4t.empty()) system += ", Jetson Linux " + f.system.l4t;
  if (f.system.virtual_machine) system += ", virtual machine";
  if (!f.system.container.empty()) system += ", container (" + f.system.container + ")";
  t.fact("system", system);
  t.fact("driver", driver_text(f));
  const std::vector<Card> cards = cards_of(f);
  for (const Card& card : cards)
    t.fact("card", fmt::format("{}, sm_{}{}", card.name, card.arch, card.guessed ? " by its PCI id" : ""));
  if (cards.empty()) t.fact("card", "none visible");
  toolkits(t, f);
  if (!f.compiler.path.empty())
    t.fact("compiler",
           fmt::format("{} {}, {} (from {})", f.compiler.kind, f.compiler.version, f.compiler.path, f.compiler.from));
  const std::string archs = cuda_architectures(f);
  if (!archs.empty()) t.fact("build with", fmt::format("-DCMAKE_CUDA_ARCHITECTURES=\"{}\"", archs));
  if (!f.python.version.empty()) {
    t.fact("PyTorch", fmt::format("{}, CUDA {}, of {}", f.python.version,
                                  f.python.cuda.empty() ? "none" : f.python.cuda, f.python.path));
    fits(t, f, f.python.code);
  }
  const Counters counters = counters_of(f);
  if (counters.readable || f.system.wsl)
    t.fact("ncu", (!counters.readable   ? "counters as Windows allows"
                   : *counters.readable ? "counters are readable"
                                        : "counters are closed") +
                      std::string(" (") + join(counters.how) + ")");
  if (f.system.wsl)
    for (const std::string& line : counters.fix) t.fact("", line);
  programs(t, f);
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

}  // namespace env_check
