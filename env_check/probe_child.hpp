// How the children that ask libcuda and NVML report, and how the parent reads it.
#pragma once
#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>

#include "env_check/child.hpp"

namespace env_check {

using nlohmann::json;

// The child reports line by line, each a small JSON object. If it hangs or dies, everything before is still known, and
// the last "step" says where it stopped.
class Reporter {
 public:
  explicit Reporter(int fd) : fd_(fd) {}
  void say(const json& fact) const {
    const std::string line = fact.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
    if (write(fd_, line.data(), line.size()) < 0) _exit(71);
  }
  void step(const char* name) const { say({{"step", name}}); }

 private:
  int fd_;
};

// The answers merged into one object: scalars overwrite, "device" lines become the array "devices".
inline json merged(const std::string& lines) {
  json all = json::object();
  all["devices"] = json::array();
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const json fact = json::parse(line, nullptr, false);
    if (!fact.is_object()) continue;
    if (fact.contains("device"))
      all["devices"].push_back(fact["device"]);
    else
      all.update(fact);
  }
  return all;
}

inline std::string state_of(const Child::Outcome& outcome, const json& answers) {
  if (!outcome.started) return "";
  if (outcome.timed_out) return "timeout";
  if (outcome.crashed || outcome.exit_code != 0) return "crashed";
  return answers.value("loaded", false) ? "answered" : "not_loaded";
}

inline std::optional<int> number(const json& j, const char* key) {
  const auto it = j.find(key);
  if (it == j.end() || !it->is_number_integer()) return std::nullopt;
  return it->get<int>();
}

inline std::string real_path_of(void* symbol) {
  Dl_info info{};
  if (!symbol || !dladdr(symbol, &info) || !info.dli_fname) return "";
  char resolved[PATH_MAX];
  return realpath(info.dli_fname, resolved) ? resolved : info.dli_fname;
}

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

}  // namespace env_check
