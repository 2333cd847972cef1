// WSL's driver files, and what Docker and CDI on this machine know about its card.
#include <algorithm>
#include <regex>
#include <set>

#include "env_check/files.hpp"
#include "env_check/gather_parts.hpp"

namespace env_check {

using std::string;

void gather_containers(Facts& facts, const GatherOptions& options) {
  const auto at = [&](const string& path) { return options.root + path; };
  facts.wsl.dxg = exists(at("/dev/dxg"));
  for (const string& name : names_in(at("/usr/lib/wsl/lib")))
    if (starts_with(name, "libcuda") || starts_with(name, "libnvidia-ml") || name == "nvidia-smi")
      facts.wsl.libraries.push_back(name);
  for (const string& name : names_in(at("/etc/ld.so.conf.d")))
    if (contains(read_text(at("/etc/ld.so.conf.d/" + name), 65536), "/usr/lib/wsl/lib")) facts.wsl.loader_conf = true;

  Containers& c = facts.containers;
  c.docker = find_on_path("docker");
  c.toolkit = !find_on_path("nvidia-ctk").empty() || !find_on_path("nvidia-container-runtime-hook").empty();
  if (exists(at("/etc/docker/daemon.json")))
    c.daemon_nvidia = contains(read_text(at("/etc/docker/daemon.json"), 1 << 20), "nvidia");
  std::set<string> versions;
  static const std::regex library(R"(\.so\.(\d{3,4}\.\d{1,4}(\.\d{1,4})?))");
  for (const char* folder : {"/etc/cdi", "/var/run/cdi"})
    for (const string& name : names_in(at(folder), 100)) {
      const string text = read_text(at(string(folder) + "/" + name), 1 << 20);
      for (const string& line : split(text, '\n')) {
        std::smatch match;
        const string start = line.substr(0, 1024);
        if (std::regex_search(start, match, library)) versions.insert(match[1]);
        if (versions.size() > 20) break;
      }
    }
  c.cdi_versions.assign(versions.begin(), versions.end());
}

}  // namespace env_check
