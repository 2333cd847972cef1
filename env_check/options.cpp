#include "env_check/options.hpp"

#include <fmt/format.h>

#include <charconv>

#include "common/error.hpp"

namespace env_check {

const char kUsage[] =
    R"(env_check: what is wrong with the CUDA driver, toolkit or architecture of this machine, how it knows, and the fix.

  --binary FILE      will this program run on the cards here, and which CUDA libraries does it load? (repeatable)
  --error N          a program gave this CUDA error number: why?
  --verbose          every fact, not only the summary
  --json             everything as JSON
  --no-python        do not look for PyTorch
  --save-facts FILE  write the facts for a bug report, without user names, host name and home folders
  --facts FILE       diagnose the facts of such a file (or of one that --json wrote) instead of this machine
  --help             this text

Exit status: 0 healthy, 1 trouble found, 2 wrong usage or an unreadable facts file.
)";

namespace {
int number(const std::string& name, const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || value < 0)
    throw BadInput(fmt::format("{}: expected a number from 0 to 2147483647, found '{}'", name, text.substr(0, 40)));
  return value;
}
}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options o;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const size_t eq = argument.rfind("--", 0) == 0 ? argument.find('=') : std::string::npos;
    const std::string name = argument.substr(0, eq);
    const auto value = [&] {
      const bool inside = eq != std::string::npos;
      if (!inside && i + 1 == arguments.size()) throw BadInput(name + ": expected a value after it, found nothing");
      const std::string text = inside ? argument.substr(eq + 1) : arguments[++i];
      if (text.empty()) throw BadInput(name + ": expected a value, found an empty one");
      return text;
    };
    const auto once = [&](std::string& option) {
      if (!option.empty()) throw BadInput(name + ": expected once, found twice");
      option = value();
    };
    if (name == "--binary")
      o.binaries.push_back(value());
    else if (name == "--save-facts")
      once(o.save_facts);
    else if (name == "--facts")
      once(o.facts);
    else if (name == "--error")
      o.error = number(name, value());
    else if (argument == "--json")
      o.json = true;
    else if (argument == "--verbose")
      o.verbose = true;
    else if (argument == "--no-python")
      o.python = false;
    else if (argument == "--help" || argument == "-h")
      o.help = true;
    else
      throw BadInput(fmt::format("expected an option of --help, found '{}'", argument.substr(0, 40)));
  }
  return o;
}

}  // namespace env_check
