// Every known case: cases/NN_name.json holds a base machine, what is different on it, and the findings expected; and a
// near miss, in which the fault is absent and the finding must be too. Both lists are compared in full.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "env_check/diagnose.hpp"
#include "env_check/report.hpp"
#include "env_check/test_harness.hpp"

using namespace env_check;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const fs::path kCases = ENV_CHECK_CASES;

json load(const fs::path& path) {
  std::ifstream in(path);
  return json::parse(in);
}

std::vector<fs::path> case_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kCases))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> ids(const std::vector<Finding>& findings) {
  std::vector<std::string> out;
  for (const Finding& x : findings) out.push_back(x.id);
  return out;
}

}  // namespace

TEST_CASE("env_check finds every known case, and nothing else") {
  for (const fs::path& file : case_files()) {
    INFO(file.stem().string());
    {
      const json c = load(file);
      json facts = load(kCases / "base" / (c["base"].get<std::string>() + ".json"));
      facts.merge_patch(c["facts"]);
      INFO(c["title"].get<std::string>());
      const Facts f = facts_from_json(facts, file.filename().string());
      const auto findings = diagnose(f);
      CHECK(ids(findings) == c["expect"].get<std::vector<std::string>>());
      for (const Finding& x : findings) {
        CHECK_FALSE(x.what.empty());
        if (x.severity != Severity::kNote) {
          CHECK_FALSE(x.how.empty());
          CHECK_FALSE(x.fix.empty());
        }
      }
      CHECK(json_report(f, findings)["findings"].size() == findings.size());
    }
  }
}

TEST_CASE("env_check stays silent in the near miss of every case") {
  for (const fs::path& file : case_files()) {
    INFO(file.stem().string());
    {
      const json c = load(file), near = c["near_miss"];
      json facts = load(kCases / "base" / (c["base"].get<std::string>() + ".json"));
      facts.merge_patch(c["facts"]);
      facts.merge_patch(near["facts"]);
      INFO(near["why"].get<std::string>());
      const auto found = ids(diagnose(facts_from_json(facts, file.filename().string())));
      CHECK(found == near["expect"].get<std::vector<std::string>>());
      const std::string about = c["finding"];
      CHECK(std::count(found.begin(), found.end(), about) == 0);
    }
  }
}

TEST_CASE("env_check has a case for every finding, and no two alike") {
  std::set<std::string> titles, covered;
  for (const fs::path& file : case_files()) {
    const json c = load(file);
    CHECK(titles.insert(c["title"].get<std::string>()).second);
    const std::string about = c["finding"];
    const auto& expected = c["expect"];
    CHECK((about.empty() ? expected.empty() : std::count(expected.begin(), expected.end(), about) == 1));
    for (const auto& id : c["expect"]) covered.insert(id.get<std::string>());
    for (const auto& id : c["near_miss"]["expect"]) covered.insert(id.get<std::string>());
  }
  CHECK(case_files().size() >= 66);
  CHECK(covered.size() >= 60);
}
