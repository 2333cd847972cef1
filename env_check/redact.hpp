// Takes out of facts what a file for the public must not tell.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace env_check {

struct Identity {
  std::string user, host, home;
  std::string real_home;  // home with its links resolved: the paths of libraries are
};
Identity this_identity();

// `json` with home folders, user names and the host name replaced in every string.
nlohmann::json redacted(const nlohmann::json& json, const Identity& identity);

}  // namespace env_check
