// Facts as JSON: there and back, bad files, extreme values, and what a saved file must not tell.
#include <sys/stat.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "common/error.hpp"
#include "env_check/diagnose.hpp"
#include "env_check/redact.hpp"
#include "env_check/report.hpp"
#include "env_check/test_harness.hpp"
#include "env_check/test_support.hpp"

using namespace env_check;
using nlohmann::json;

namespace {

std::string complaint(const std::string& path) {
  try {
    load_facts(path);
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

std::string bad_input(const std::string& text) {
  TemporaryFolder folder;
  return complaint(folder.write("facts.json", text));
}

}  // namespace

TEST_CASE("env_check facts survive the way through JSON") {
  Facts f;
  f.system.kernel = "6.8.0";
  f.system.address_limit = int64_t{1} << 40;
  f.system.secure_boot = true;
  f.module.open = false;
  f.environment["LD_LIBRARY_PATH"] = "/a:/b";
  f.environment["CUDA_VISIBLE_DEVICES"] = "";
  f.driver.state = "answered";
  f.driver.init_result = 100;
  f.driver.devices.push_back({"card", 9, 0, "GPU-1", "0000:01:00.0", 0, std::nullopt});
  f.binaries.push_back({"./a",
                        "",
                        "program",
                        "x86_64",
                        64,
                        {cubin(80), ptx(80, 9, 0)},
                        {{"libcudart.so.13", "/a/libcudart.so.13", "RUNPATH", "", "", ""}}});
  const json once = to_json(f);
  const Facts back = facts_from_json(once, "test");
  CHECK(to_json(back) == once);
  CHECK(back.system.address_limit == int64_t{1} << 40);
  CHECK(back.module.open == false);
  CHECK_FALSE(back.module.kernel_headers);
  CHECK(back.driver.devices[0].major == 9);
  REQUIRE(back.env("CUDA_VISIBLE_DEVICES"));
  CHECK(back.env("CUDA_HOME") == nullptr);
}

TEST_CASE("env_check refuses absurd facts files with one line") {
  CHECK(holds(bad_input(""), "nothing to read"));
  CHECK(holds(bad_input("not json"), "expected JSON"));
  CHECK(holds(bad_input("{\"system\": {"), "expected JSON"));
  CHECK(holds(bad_input("[]"), "expected an object, found array"));
  CHECK(holds(bad_input("null"), "expected an object"));
  CHECK(holds(bad_input("{\"system\": 5}"), "'system': expected an object, found number 5"));
  CHECK(holds(bad_input("{\"system\": {\"wsl\": \"yes\"}}"), "'system.wsl': expected true or false"));
  CHECK(holds(bad_input("{\"pci\": [{\"device_id\": 1e300}]}"), "'pci[0].device_id': expected a whole number"));
  CHECK(holds(bad_input("{\"pci\": [{\"device_id\": 18446744073709551615}]}"), "expected a whole number"));
  CHECK(holds(bad_input("{\"pci\": [{\"device_id\": -9223372036854775808}]}"), "expected a whole number"));
  CHECK(holds(bad_input("{\"pci\": [{\"device_id\": true}]}"), "expected a whole number"));
  CHECK(holds(bad_input("{\"environment\": {\"A\": 1}}"), "'environment.A': expected a string"));
  CHECK(holds(bad_input("{\"schema\": 2}"), "'schema': expected 1"));
  CHECK(holds(bad_input(std::string("\xff\xfe\x00", 3)), "expected JSON"));
  CHECK(holds(bad_input(std::string(17 << 20, ' ')), "more than 16 MiB"));
  CHECK(holds(complaint("/nonexistent/facts.json"), "/nonexistent/facts.json: expected a facts file"));
  CHECK(holds(complaint("/"), "/: expected a facts file"));
  // The message is one line even if the file's own text is not.
  CHECK(bad_input("{\"system\": \"a\\nb\"}").find('\n') == std::string::npos);
}

TEST_CASE("env_check takes a report of --json as facts too") {
  Facts f;
  f.driver.state = "answered", f.driver.version = 12080;
  TemporaryFolder folder;
  const std::string path = folder.write("report.json", json_report(f, diagnose(f)).dump());
  CHECK(load_facts(path).driver.version == 12080);
}

TEST_CASE("env_check: deeply nested facts neither crash nor pass") {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  CHECK_FALSE(bad_input(deep).empty());
  CHECK_FALSE(bad_input("{\"system\": " + deep + "}").empty());
  CHECK(holds(bad_input("{\"unknown\": " + std::string(8000000, '[')), "nested deeper than 20 levels"));
}

TEST_CASE("env_check: facts with absurdly many or long entries are refused or shortened at once") {
  std::string many = "{\"pci\": [{}";
  for (int i = 0; i < 1000; ++i) many += ",{}";
  CHECK(holds(bad_input(many + "]}"), "'pci': expected at most 1000 entries, found 1001"));
  json facts = to_json(Facts());
  facts["driver"] = {{"state", "answered"}, {"init_result", 0}, {"count_result", 0}, {"count", 1}};
  facts["driver"]["devices"] = json::array();
  facts["binaries"] = json::array();
  for (int i = 0; i < 1000; ++i) {
    facts["driver"]["devices"].push_back({{"name", "card"}, {"major", 9}, {"minor", 0}});
    facts["binaries"].push_back({{"path", std::to_string(i)}, {"code", {{{"kind", "cubin"}, {"arch", 80}}}}});
  }
  std::string list;
  for (int i = 0; i < 100000; ++i) list += "0,";
  facts["environment"]["CUDA_VISIBLE_DEVICES"] = list;
  const Facts f = facts_from_json(facts, "test");
  const auto start = std::chrono::steady_clock::now();
  const auto findings = diagnose(f);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  for (const Finding& x : findings) CHECK(x.how.size() <= 40);
  CHECK(text_report(f, {findings[0]}).find(list) == std::string::npos);
}

TEST_CASE("env_check takes only regular files as facts, and does not wait for a pipe") {
  TemporaryFolder folder;
  const std::string pipe = (folder.path / "pipe").string();
  CHECK(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(holds(complaint(pipe), "not a regular file"));
  CHECK(holds(complaint("/dev/zero"), "not a regular file"));
}

TEST_CASE("env_check takes facts with missing and unknown keys") {
  const Facts f = facts_from_json(
      json::parse(R"({"driver": {"state": "answered"}, "from_the_future": {"x": 1}, "module": {"open": null}})"),
      "test");
  CHECK(f.driver.state == "answered");
  CHECK_FALSE(f.module.open);
  CHECK(diagnose(Facts()).size() >= 1);
  CHECK(diagnose(Facts())[0].id == "driver_not_asked");
}

TEST_CASE("env_check diagnoses facts with extreme values without crashing") {
  json base = to_json(Facts());
  base["driver"] = {
      {"state", "answered"},
      {"init_result", 0},
      {"count_result", 0},
      {"count", 2147483647},
      {"version", -2147483647 - 1},
      {"devices", {{{"name", "x"}, {"major", 2147483647}, {"minor", -1}}, {{"name", ""}, {"major", 0}, {"minor", 0}}}}};
  base["toolkits"] = {{{"version", "999999999999.99999999999"}, {"nvcc", "nvcc"}, {"from", "PATH"}},
                      {{"version", ""}, {"nvcc", ""}}};
  base["pci"] = {{{"device_id", -1}, {"class_id", -1}}, {{"device_id", 2147483647}}};
  base["binaries"] = {
      {{"path", ""},
       {"code", {{{"kind", "x"}, {"arch", 2147483647}}, {{"kind", "ptx"}, {"arch", -5}, {"isa_major", -1}}}},
       {"needed", {{{"name", "libcudart.so."}}}}}};
  base["environment"] = {{"CUDA_VISIBLE_DEVICES", ",,, ,"},
                         {"CUDAARCHS", ";-;f;9999999999999;native-real"},
                         {"NVIDIA_REQUIRE_CUDA", "cuda>="},
                         {"CUDA_HOME", ""},
                         {"NVCC_CCBIN", ""}};
  base["compiler"] = {{"version", "-3"}, {"path", "g++"}};
  base["module"] = {{"loaded", true}, {"version", "...."}};
  base["libraries"] = {{{"name", "libcudart.so."}, {"path", "x"}, {"where", "LD_LIBRARY_PATH"}},
                       {{"name", "libcuda.so.1"}, {"real", ".so."}}};
  for (const char* state : {"answered", "not_loaded", "timeout", "crashed", "?"})
    for (const char* container : {"", "docker", "lxc"})
      for (const bool wsl : {false, true}) {
        base["driver"]["state"] = state;
        base["system"]["container"] = container;
        base["system"]["wsl"] = wsl;
        const Facts f = facts_from_json(base, "test");
        const auto findings = diagnose(f);
        CHECK_FALSE(findings.empty());
        CHECK_FALSE(text_report(f, findings).empty());
        CHECK(json_report(f, findings)["verdict"] == "trouble");
      }
}

TEST_CASE("env_check saves no names and no home folders") {
  const Identity id{"alice", "alicebox", "/home/alice", "/vol1/people/a123"};
  Facts f;
  f.environment["LD_LIBRARY_PATH"] = "/home/alice/cuda/lib64:/home/bob/x:/mnt/c/Users/Alice W/y:/data/alice/z";
  f.environment["CUDA_HOME"] = "/home/alice";
  f.driver.error = "on alicebox: cannot open /home/alicexander/lib";
  f.toolkits.push_back({});
  f.toolkits[0].root = "/scratch/alice.old/cuda";
  f.toolkits[0].nvcc = "/opt/malice/nvcc";
  f.toolkits[0].error = "/vol1/people/a123/x";
  f.environment["CUDA_MPS_PIPE_DIRECTORY"] = "/tmp/mps_alice/alice-env";
  const std::string text = redacted(to_json(f), id).dump();
  CHECK(text.find("bob") == std::string::npos);
  CHECK(text.find("Alice W") == std::string::npos);
  CHECK(text.find("alicebox") == std::string::npos);
  CHECK(text.find("/alice") == std::string::npos);
  CHECK(text.find("_alice") == std::string::npos);
  CHECK(text.find("alice-") == std::string::npos);
  CHECK(text.find("a123") == std::string::npos);
  CHECK(text.find("alicexander") == std::string::npos);
  CHECK(text.find("~/cuda/lib64") != std::string::npos);
  CHECK(text.find("/opt/malice/nvcc") != std::string::npos);
  CHECK(text.find("\"schema\":1") != std::string::npos);
}

TEST_CASE("env_check: a user called like an ordinary word does not garble the facts") {
  Facts f;
  f.driver.path = "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1";
  const json out = redacted(to_json(f), {"nvidia", "ubuntu", "/home/nvidia", ""});
  CHECK(out["driver"]["path"] == "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1");
  f.driver.path = "/usr/lib/libnvidia-ml.so.1";
  CHECK(redacted(to_json(f), {"ml", "gnu", "/home/ml", ""})["driver"]["path"] == "/usr/lib/libnvidia-ml.so.1");
}
