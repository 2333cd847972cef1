// From facts to findings: what is wrong, how we know, what to type. A pure function, so that every known case is a small
// JSON file that a test replays.
#pragma once
#include <string>
#include <vector>

#include "env_check/facts.hpp"

namespace env_check {

enum class Severity {
  kError,    // something this tutorial needs does not work
  kWarning,  // works now, but something found here will fail or mislead
  kNote,     // worth knowing; the machine counts as healthy
};

struct Finding {
  std::string id;  // stable name: nouveau, gcc_too_new, …
  Severity severity = Severity::kNote;
  std::string what;              // one sentence, for a person
  std::vector<std::string> how;  // the facts it follows from
  std::vector<std::string> fix;  // commands to copy; lines that start with # explain
};

// Worst first; among equals in the order of the six checks of the lesson (card, driver, container, arch, toolkit,
// program). Never throws.
std::vector<Finding> diagnose(const Facts& facts);

bool healthy(const std::vector<Finding>& findings);  // no error and no warning

}  // namespace env_check
