// env_check: says what is wrong with driver, toolkit or architecture, how it knows, and what to type.
//
// Exit status and options: kUsage in options.cpp.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/error.hpp"
#include "env_check/diagnose.hpp"
#include "env_check/gather.hpp"
#include "env_check/options.hpp"
#include "env_check/redact.hpp"
#include "env_check/report.hpp"

namespace {

std::string dump(const nlohmann::json& j) {
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void save(const env_check::Facts& facts, const std::string& path) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::not_found)
    throw BadInput(fmt::format("--save-facts {}: expected a regular file", path));
  const std::string text = dump(env_check::redacted(env_check::to_json(facts), env_check::this_identity()));
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw BadInput(fmt::format("--save-facts {}: expected a file that can be written", path));
}

int run(const env_check::Options& options) {
  if (options.help) {
    std::fputs(env_check::kUsage, stdout);
    return kOk;
  }
  env_check::Facts facts;
  if (options.facts.empty()) {
    env_check::GatherOptions wanted;
    wanted.binaries = options.binaries;
    wanted.python = options.python;
    facts = env_check::gather(wanted);
  } else {
    facts = env_check::load_facts(options.facts);
    for (const std::string& path : options.binaries) facts.binaries.push_back(env_check::gather_binary(path, facts));
  }
  if (options.error) facts.reported_error = options.error;
  if (!options.save_facts.empty()) save(facts, options.save_facts);

  const std::vector<env_check::Finding> findings = env_check::diagnose(facts);
  env_check::ReportStyle style;
  style.verbose = options.verbose;
  style.colour = isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
  const std::string text =
      options.json ? dump(env_check::json_report(facts, findings)) : env_check::text_report(facts, findings, style);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return env_check::healthy(findings) ? kOk : kCheckFailed;
}

// A file opened as descriptor 0, 1 or 2 would be lost in the children, which have /dev/null there.
void open_standard_files() {
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) return;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_files();
  try {
    return run(env_check::parse_options({argv + 1, argv + argc}));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "env_check: %s\n", e.what());
    return kBadInput;
  }
}
