// env_check: says what is wrong with driver, toolkit or architecture, how it knows, and what to type.
//
// Exit status: 0 healthy, 1 trouble found, 2 wrong usage or an unreadable facts file.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/error.hpp"
#include "env_check/diagnose.hpp"
#include "env_check/gather.hpp"
#include "env_check/report.hpp"

namespace {

std::string dump(const nlohmann::json& j) {
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void save(const env_check::Facts& facts, const std::string& path) {
  const std::string text = dump(env_check::redacted(env_check::to_json(facts), env_check::this_identity()));
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw BadInput(fmt::format("--save-facts {}: expected a file that can be written", path));
}

int run(int argc, char** argv) {
  CLI::App app{
      "Says what is wrong with the CUDA driver, toolkit or architecture of this machine, how it knows, and the fix."};
  bool as_json = false, verbose = false;
  std::string save_to, load_from;
  std::vector<std::string> binaries;
  int reported = 0;
  app.add_flag("--json", as_json, "print everything as JSON");
  app.add_flag("--verbose", verbose, "print every fact, not only the summary");
  app.add_option("--save-facts", save_to, "write the facts to a file for a bug report, without names and home folders");
  app.add_option("--facts", load_from, "diagnose the facts of such a file instead of this machine");
  app.add_option("--binary", binaries, "will this program run on the cards here? (repeatable)")
      ->allow_extra_args(false);
  auto* error = app.add_option("--error", reported, "a CUDA error number that a program gave");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    throw BadInput(e.what());
  }

  env_check::Facts facts;
  if (load_from.empty()) {
    env_check::GatherOptions options;
    options.binaries = binaries;
    facts = env_check::gather(options);
  } else {
    facts = env_check::load_facts(load_from);
    for (const std::string& path : binaries) facts.binaries.push_back(env_check::gather_binary(path, facts));
  }
  if (error->count() > 0) facts.reported_error = reported;
  if (!save_to.empty()) save(facts, save_to);

  const std::vector<env_check::Finding> findings = env_check::diagnose(facts);
  env_check::ReportStyle style;
  style.verbose = verbose;
  style.colour = isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
  const std::string text =
      as_json ? dump(env_check::json_report(facts, findings)) : env_check::text_report(facts, findings, style);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return env_check::healthy(findings) ? kOk : kCheckFailed;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "env_check: %s\n", e.what());
    return kBadInput;
  }
}
