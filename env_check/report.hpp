// Facts and findings as text for a person (verdict first, findings worst first, then the facts) or as JSON for programs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "env_check/diagnose.hpp"

namespace env_check {

struct ReportStyle {
  bool colour = false;   // for a terminal
  bool verbose = false;  // every fact, not only the summary
};

// "HEALTHY: …" or "TROUBLE: …", one line.
std::string verdict_line(const Facts& facts, const std::vector<Finding>& findings);

// Control characters of the facts (a facts file may come from anybody) are shown as '?'.
std::string text_report(const Facts& facts, const std::vector<Finding>& findings, const ReportStyle& style = {});

// {"schema": 1, "verdict": "healthy" | "trouble", "summary": verdict line,
//  "findings": [{"id", "severity": "error" | "warning" | "note", "what", "how": [], "fix": []}],
//  "driver": {"version", "cuda"}, "cuda_architectures": "90a", "nvcc": path or "",
//  "toolkits": [{"version", "nvcc", "from", "archs": [], "driver", "oldest_driver"}],
//  "counters": {"readable": true | false | null, "how": [], "fix": []},
//  "python": null | {"path", "torch", "cuda", "code": [], "cards": []},
//  "cards": [{"name", "arch", "guessed"}],
//  "programs": [{"path", "kind", "error", "code": [], "cards": [{"arch", "fit": "runs" | "jit" | "ptx_too_new" | "no_code"}],
//                "libraries": [{"name", "path", "why"}]}],
//  "facts": {…}}
// Keys may be added; one that is taken away or changes its meaning raises "schema".
nlohmann::json json_report(const Facts& facts, const std::vector<Finding>& findings);

}  // namespace env_check
