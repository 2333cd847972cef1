// The cards on the PCI bus and their device files.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "env_check/child.hpp"
#include "env_check/files.hpp"
#include "env_check/gather_parts.hpp"

namespace env_check {

using std::string;
using std::vector;

void gather_pci(Facts& facts, const GatherOptions& options) {
  const auto at = [&](const string& path) { return options.root + path; };
  const string folder = at("/sys/bus/pci/devices/");
  const vector<string> functions = names_in(folder);
  if (!functions.empty()) facts.system.pci_functions = static_cast<int>(functions.size());
  for (const string& bdf : functions) {
    const string device = folder + bdf;
    if (integer(read_text(device + "/vendor", 64), 16) != 0x10de) continue;
    PciDevice p;
    p.bdf = bdf;
    p.device_id = integer(read_text(device + "/device", 64), 16).value_or(0);
    p.class_id = integer(read_text(device + "/class", 64), 16).value_or(0);
    const bool gpu = p.class_id >> 8 == 0x0300 || p.class_id >> 8 == 0x0302;
    if (!gpu && p.class_id >> 8 != 0x0680) continue;  // the sound and USB functions of a card tell nothing
    p.driver = base_name(real_path(device + "/driver"));
    const string config = read_text(device + "/config", 64);
    p.config_dead = config.size() >= 16 && config.find_first_not_of('\xff') == string::npos;
    const vector<string> bars = split(read_text(device + "/resource", 4096), '\n');
    if (gpu && bars.size() > 1) {
      char* end = nullptr;
      const char* line = bars[1].c_str();
      const unsigned long long start = std::strtoull(line, &end, 16);
      if (end != line) p.bar1_unassigned = start == 0;
    }
    p.in_proc = exists(at("/proc/driver/nvidia/gpus/" + bdf));
    facts.pci.push_back(p);
  }
}

namespace {

string error_name(int error) {
  switch (error) {
    case 0:
      return "";
    case EACCES:
      return "EACCES";
    case EPERM:
      return "EPERM";
    case ENOENT:
      return "ENOENT";
    case ENXIO:
      return "ENXIO";
    case ENODEV:
      return "ENODEV";
    case EIO:
      return "EIO";
    default:
      return std::strerror(error);
  }
}

// A node that may be used gives "". Opening is the only way to see the device rules of a container or batch system, and it
// may hang: a child does it.
string open_error(const string& path, bool only_permission, std::chrono::milliseconds limit) {
  const Child::Outcome tried = Child([&](int out) {
                                 const bool good = only_permission
                                                       ? faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) == 0
                                                       : open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK) >= 0;
                                 const string text = good ? "" : error_name(errno);
                                 if (write(out, text.data(), text.size()) < 0) _exit(1);
                               }).finish(limit);
  return tried.timed_out ? "timeout" : tried.output;
}

}  // namespace

void gather_nodes(Facts& facts, const GatherOptions& options) {
  const auto at = [&](const string& path) { return options.root + path; };
  std::map<string, int> majors;
  for (const string& line : split(read_text(at("/proc/devices")), '\n')) {
    std::istringstream in(line);
    int major = 0;
    string name;
    if (in >> major >> name) majors[name] = major;
  }
  const auto major_of = [&](const string& name) -> std::optional<int> {
    const auto it = majors.find(name);
    return it == majors.end() ? std::nullopt : std::optional<int>(it->second);
  };
  const bool works = facts.driver.count.value_or(0) > 0;
  const auto add = [&](const string& path, bool only_permission, std::optional<int> expected_major) {
    DeviceNode node;
    node.path = path;
    struct stat st {};
    if (stat(at(path).c_str(), &st) == 0) {
      node.mode = static_cast<int>(st.st_mode & 07777);
      if (S_ISCHR(st.st_mode)) node.major = static_cast<int>(major(st.st_rdev));
    }
    node.expected_major = expected_major;
    node.error = open_error(at(path), only_permission, options.program_limit);
    facts.nodes.push_back(node);
  };
  for (const string& name : names_in(at("/dev"))) {
    const bool card =
        starts_with(name, "nvidia") && name.size() > 6 && name.find_first_not_of("0123456789", 6) == string::npos;
    const bool tegra = name == "nvhost-gpu" || name == "nvmap";
    const auto nvidia = major_of("nvidia") ? major_of("nvidia") : major_of("nvidia-frontend");
    // A card's own node wakes the card when opened: only where CUDA has not found one.
    if (card) add("/dev/" + name, works, nvidia);
    if (tegra) add("/dev/" + name, true, std::nullopt);
    if (name == "nvidiactl") add("/dev/nvidiactl", false, nvidia);
    if (name == "nvidia-uvm") add("/dev/nvidia-uvm", false, major_of("nvidia-uvm"));
  }
  for (const string& name : names_in(at("/dev/nvidia-caps"), 64))  // the slices of MIG
    if (starts_with(name, "nvidia-cap")) add("/dev/nvidia-caps/" + name, true, major_of("nvidia-caps"));
  if (exists(at("/dev/nvgpu/igpu0/ctrl"))) add("/dev/nvgpu/igpu0/ctrl", true, std::nullopt);
}

}  // namespace env_check
