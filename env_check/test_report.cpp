// What is printed: text for people, JSON for programs.
#include <nlohmann/json.hpp>

#include "env_check/report.hpp"
#include "env_check/test_harness.hpp"
#include "env_check/test_support.hpp"

using namespace env_check;
using nlohmann::json;

TEST_CASE("env_check report: verdict first, worst finding first, JSON schema") {
  Facts f;
  f.driver.state = "answered";
  const std::vector<Finding> findings = {{"a_note", Severity::kNote, "n", {}, {}}};
  CHECK(healthy(findings));
  CHECK(verdict_line(f, findings).rfind("HEALTHY: ", 0) == 0);
  const std::vector<Finding> trouble = {{"bad", Severity::kError, "It is\x1b[31m bad\n.", {"seen"}, {"fix it"}},
                                        {"hm", Severity::kWarning, "w", {}, {}}};
  CHECK_FALSE(healthy(trouble));
  const std::string text = text_report(f, trouble);
  CHECK(text.rfind("TROUBLE: It is", 0) == 0);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("(1 error, 1 warning)") != std::string::npos);
  CHECK(text.find("fix   fix it") != std::string::npos);
  ReportStyle colour;
  colour.colour = true;
  CHECK(text_report(f, trouble, colour).find("\x1b[1;31m") != std::string::npos);
  ReportStyle verbose;
  verbose.verbose = true;
  CHECK(text_report(f, trouble, verbose).size() > text.size() + 500);

  const json j = json_report(f, trouble);
  CHECK(j["schema"] == 1);
  CHECK(j["verdict"] == "trouble");
  CHECK(
      j["findings"][0] ==
      json({{"id", "bad"}, {"severity", "error"}, {"what", trouble[0].what}, {"how", {"seen"}}, {"fix", {"fix it"}}}));
  CHECK(j["findings"][1]["severity"] == "warning");
  for (const char* key : {"summary", "driver", "cuda_architectures", "nvcc", "cards", "programs", "facts"})
    CHECK(j.contains(key));
  CHECK(to_json(facts_from_json(j["facts"], "test")) == j["facts"]);
}
