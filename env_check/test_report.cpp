// What is printed: text for people, JSON for programs.
#include <nlohmann/json.hpp>

#include "env_check/diagnosis.hpp"
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

namespace {
std::vector<std::string> keys(const json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  return names;  // sorted: nlohmann's objects are maps
}
using Keys = std::vector<std::string>;
}  // namespace

TEST_CASE("env_check report: the JSON has exactly the keys and types of its schema") {
  Facts f;
  Toolkit t;
  t.version = "12.8.93", t.nvcc = "/usr/bin/nvcc", t.from = "PATH";
  f.toolkits = {t};
  f.driver.state = "answered", f.driver.init_result = 0, f.driver.count_result = 0, f.driver.count = 1;
  f.driver.version = 12080;
  f.driver.devices.push_back({"card", 9, 0, "GPU-1", "0000:01:00.0", 0, 1});
  f.module.profiling_admin_only = true;
  f.binaries.push_back({"./a",
                        "",
                        "program",
                        "x86_64",
                        64,
                        {cubin(90, "a"), ptx(80, 8, 7)},
                        {{"libcudart.so.12", "/x", "cache", "", "", ""}}});
  f.python = {"/usr/bin/python3", "/x/torch", "2.8.0", "12.8", "", {cubin(80)}};
  const json j = json_report(f, diagnose(f));
  CHECK(keys(j) == Keys{"cards", "counters", "cuda_architectures", "driver", "facts", "findings", "nvcc", "programs",
                        "python", "schema", "summary", "toolkits", "verdict"});
  CHECK(j["schema"] == 1);
  CHECK(j["cuda_architectures"] == "90a");
  CHECK(j["nvcc"] == "/usr/bin/nvcc");
  CHECK(keys(j["driver"]) == Keys{"cuda", "version"});
  CHECK(keys(j["toolkits"][0]) == Keys{"archs", "driver", "from", "nvcc", "oldest_driver", "version"});
  CHECK(j["toolkits"][0]["driver"] == "570.26");
  CHECK(j["toolkits"][0]["oldest_driver"] == "525.60.13");
  CHECK(keys(j["counters"]) == Keys{"fix", "how", "readable"});
  CHECK(j["counters"]["readable"] == false);
  CHECK(keys(j["python"]) == Keys{"cards", "code", "cuda", "path", "torch"});
  CHECK(j["python"]["cards"][0]["fit"] == "no_code");
  CHECK(keys(j["cards"][0]) == Keys{"arch", "guessed", "name"});
  CHECK(keys(j["programs"][0]) == Keys{"cards", "code", "error", "kind", "libraries", "path"});
  CHECK(j["programs"][0]["code"] == json({"sm_90a", "compute_80 (PTX 8.7)"}));
  CHECK(j["programs"][0]["cards"] == json::array({{{"arch", 90}, {"fit", "runs"}}}));
  CHECK(j["programs"][0]["libraries"] ==
        json::array({{{"name", "libcudart.so.12"}, {"path", "/x"}, {"why", "cache"}}}));
  REQUIRE(!j["findings"].empty());
  for (const json& finding : j["findings"]) {
    CHECK(keys(finding) == Keys{"fix", "how", "id", "severity", "what"});
    CHECK((finding["severity"] == "error" || finding["severity"] == "warning" || finding["severity"] == "note"));
    CHECK(finding["fix"].is_array());
  }
  const json empty = json_report(Facts(), diagnose(Facts()));
  CHECK(keys(empty) == keys(j));
  CHECK(empty["python"].is_null());
  CHECK(empty["counters"]["readable"].is_null());
}

TEST_CASE("env_check report: how to open the counters on a bare machine, in WSL and in a container") {
  Facts f;
  f.module.profiling_admin_only = true;
  CHECK(holds(counters_of(f).fix[0], "NVreg_RestrictProfilingToAdminUsers=0"));
  f.system.sys_admin = true;
  CHECK(counters_of(f).readable == true);
  f.system.sys_admin = false;
  f.system.container = "docker";
  CHECK(counters_of(f).readable == false);
  CHECK(holds(counters_of(f).fix[0], "--cap-add=SYS_ADMIN"));
  f.system.container.clear();
  f.system.wsl = true;
  CHECK_FALSE(counters_of(f).readable);
  CHECK(holds(counters_of(f).fix[0], "Windows"));
}

TEST_CASE("env_check report: nothing in the facts can steer the terminal") {
  Facts f;
  f.system.kernel = "a\x1b[31m\u009b32m\u202e\u2066\x7f\r\nb é";
  const std::string text = text_report(f, {});
  CHECK(holds(text, "Linux a?[31m?32m???? b é"));
}

TEST_CASE("env_check report: programs with the same code and libraries are shown together") {
  Facts f;
  for (const char* name : {"./step01", "./step02", "./step03"})
    f.binaries.push_back({name, "", "program", "x86_64", 64, {cubin(86)}, {}});
  f.binaries.push_back({"./other", "", "program", "x86_64", 64, {cubin(90)}, {}});
  const std::string text = text_report(f, {});
  CHECK(holds(text, "./step01 to ./step03 (3 programs)"));
  CHECK(holds(text, "program     ./other\n"));
}
