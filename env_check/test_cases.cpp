// Every known case: cases/NN_name.json holds a base machine, what is different on it, and the findings expected; and a
// near miss, in which the fault is absent and the finding must be too. Both lists are compared in full.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "env_check/diagnose.hpp"
#include "env_check/report.hpp"
#include "env_check/tables.hpp"
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

namespace {

Facts facts_of(const json& c, const fs::path& file, bool near_miss) {
  json facts = load(kCases / "base" / (c["base"].get<std::string>() + ".json"));
  facts.merge_patch(c["facts"]);
  if (near_miss) facts.merge_patch(c["near_miss"]["facts"]);
  return facts_from_json(facts, file.filename().string());
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += " " + word;
  return out;
}

}  // namespace

TEST_CASE("env_check finds every known case, and nothing else") {
  for (const fs::path& file : case_files()) {
    const json c = load(file);
    const Facts f = facts_of(c, file, false);
    const auto findings = diagnose(f);
    INFO(file.filename().string() << ": found" << joined(ids(findings)));
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

TEST_CASE("env_check stays silent in the near miss of every case") {
  for (const fs::path& file : case_files()) {
    const json c = load(file), near = c["near_miss"];
    const auto found = ids(diagnose(facts_of(c, file, true)));
    INFO(file.filename().string() << ", " << near["why"].get<std::string>() << ": found" << joined(found));
    CHECK(found == near["expect"].get<std::vector<std::string>>());
    const std::string about = c["finding"];
    CHECK(std::count(found.begin(), found.end(), about) == 0);
  }
}

TEST_CASE("env_check has a fixture for each of the 66 collected cases") {
  // The numbers of the collection of public reports that this program was built from; 0 and those above 88 are later ones.
  const int collected[] = {1,  2,  3,  6,  7,  8,  10, 11, 13, 15, 17, 18, 19, 20, 22, 24, 25, 26, 27, 28, 29, 30,
                           31, 33, 34, 35, 38, 39, 40, 41, 42, 45, 47, 48, 49, 50, 51, 53, 54, 55, 56, 57, 58, 59,
                           61, 63, 64, 66, 67, 69, 70, 72, 73, 74, 75, 76, 77, 79, 81, 82, 83, 84, 85, 86, 87, 88};
  CHECK(std::size(collected) == 66);
  std::map<int, int> fixtures;
  for (const fs::path& file : case_files()) {
    const json c = load(file);
    INFO(file.filename().string());
    const int number = c["case"];
    CHECK(std::atoi(file.filename().c_str()) == number);
    if (!c["finding"].get<std::string>().empty()) ++fixtures[number];
  }
  for (const int number : collected) {
    INFO("case " << number);
    CHECK(fixtures[number] >= 1);
  }
}

TEST_CASE("env_check: every fixture has its own title, and names a finding that it expects") {
  std::set<std::string> titles;
  for (const fs::path& file : case_files()) {
    const json c = load(file);
    INFO(file.filename().string());
    CHECK(titles.insert(c["title"].get<std::string>()).second);
    const std::string about = c["finding"];
    const auto& expected = c["expect"];
    CHECK((about.empty() ? expected.empty() : std::count(expected.begin(), expected.end(), about) == 1));
  }
}

// The sources name a finding as the first argument of add(), error(), warning() or note(): each needs a fixture.
TEST_CASE("env_check has a fixture for every finding that its sources can give") {
  std::set<std::string> covered, given;
  for (const fs::path& file : case_files()) {
    const json c = load(file);
    for (const auto& id : c["expect"]) covered.insert(id.get<std::string>());
  }
  static const std::regex call(R"re((?:\berror|\bwarning|\bnote)\(\s*"([a-z0-9_]+)"|\badd\([^"]*,\s*"([a-z0-9_]+)")re");
  for (const auto& entry : fs::directory_iterator(kCases.parent_path())) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("check_", 0) != 0 || entry.path().extension() != ".cpp") continue;
    std::ifstream in(entry.path());
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it)
      given.insert((*it)[1].matched ? (*it)[1] : (*it)[2]);
  }
  CHECK(given.size() >= 90);
  for (const std::string& id : given) {
    INFO(id);
    CHECK((covered.count(id) == 1 || id == "driver_not_asked"));
  }
}

// The steps print an error's cause from the table; the table must say what diagnose() says.
TEST_CASE("env_check: a CUDA error's row names findings that the facts with this error lead to") {
  for (const int code : listed_errors()) {
    const ErrorCode row = error_code(code);
    INFO("error " << code);
    CHECK_FALSE(row.cause.empty());
    CHECK(row.cause.find('\n') == std::string::npos);
    if (row.findings.empty()) continue;
    bool reached = false;
    for (const fs::path& file : case_files()) {
      const json c = load(file);
      for (const auto& id : c["expect"])
        for (const std::string& finding : row.findings) reached = reached || id == finding;
    }
    CHECK(reached);
  }
}
