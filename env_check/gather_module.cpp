// The kernel module on disk and in memory, and what the kernel's log says about the card, where it may be read.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <regex>

#include "env_check/files.hpp"
#include "env_check/gather_parts.hpp"

namespace env_check {

using std::string;
using std::vector;

namespace {

// nvidia.ko, also compressed, and Debian's names for it: nvidia-current.ko, nvidia-legacy-390xx.ko, nvidia-tesla.ko.
bool is_module(const string& name) {
  static const std::regex form(R"(nvidia(-current|-legacy-\w{1,8}|-tesla[\w-]{0,8})?\.ko(\.\w{1,4})?)");
  return name.size() < 60 && std::regex_match(name, form);
}

// The file (or "the kernel's command line") that forbids loading nvidia; "" without one.
string blacklisted_in(const string& root) {
  for (const string& word : split(trimmed(read_text(root + "/proc/cmdline", 65536)), ' '))
    if (const size_t eq = word.find("blacklist="); eq != string::npos)
      for (const string& name : split(word.substr(eq + 10), ','))
        if (name == "nvidia") return "the kernel's command line";
  for (const char* folder : {"/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"})
    for (const string& name : names_in(root + folder, 1000)) {
      const string path = string(folder) + "/" + name;
      for (const string& line : split(read_text(root + path, 65536), '\n')) {
        vector<string> words;
        for (const string& word : split(trimmed(line), ' '))
          if (!word.empty()) words.push_back(word);
        if (words.size() < 2 || words[1] != "nvidia") continue;
        if (words[0] == "blacklist" || (words[0] == "alias" && words.size() > 2 && words[2] == "off")) return path;
        if (words[0] == "install" && words.size() > 2 &&
            (base_name(words[2]) == "false" || base_name(words[2]) == "true"))
          return path;
      }
    }
  return "";
}

// Unknown where the module is not known to need the firmware's files (before 515) or the folder cannot be listed.
std::optional<bool> gsp_firmware(const string& root, const string& version) {
  if (!is_folder(root + "/lib/firmware") || integer(version.substr(0, version.find('.'))).value_or(0) < 515)
    return std::nullopt;
  for (const string& name : names_in(root + "/lib/firmware/nvidia/" + version, 100))
    if (starts_with(name, "gsp")) return true;
  return false;
}

// The kernel's records, one read each; nothing where the log is closed to users (kernel.dmesg_restrict).
string kernel_records(const string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return "";
  if (S_ISREG(st.st_mode)) return read_text(path);
  if (!S_ISCHR(st.st_mode)) return "";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  string text;
  char record[8192];
  for (int i = 0; i < 50000; ++i) {
    const ssize_t got = read(fd, record, sizeof record);
    if (got < 0 && (errno == EPIPE || errno == EINTR)) continue;  // overwritten meanwhile: the next one
    if (got <= 0) break;
    text.append(record, static_cast<size_t>(got));
  }
  close(fd);
  return text;
}

// "6,1234,5678,-;NVRM: Xid (PCI:0000:01:00): 79, pid=1, name=python, GPU has fallen off the bus." without the program.
vector<string> kernel_log(const string& path) {
  static const std::regex program(R"(,? ?(pid=[^,]{0,20}|name=[^,]{0,40}))");
  vector<string> lines;
  for (const string& record : split(kernel_records(path), '\n')) {
    const bool ours = contains(record, "NVRM") || contains(record, "nvidia") || contains(record, "nouveau") ||
                      contains(record, "PM: suspend exit") || contains(record, "PM: hibernation") ||
                      contains(record, "module with unavailable key");
    if (!ours || starts_with(record, " ")) continue;
    const size_t semicolon = record.find(';');
    const string text = record.substr(semicolon == string::npos ? 0 : semicolon + 1, 240);
    lines.push_back(std::regex_replace(text, program, ""));
  }
  if (lines.size() > 60) lines.erase(lines.begin(), lines.end() - 60);
  return lines;
}

}  // namespace

void gather_module(Facts& facts, const GatherOptions& options) {
  const auto at = [&](const string& path) { return options.root + path; };
  Module& m = facts.module;
  const string proc = read_text(at("/proc/driver/nvidia/version"));
  m.loaded = !proc.empty() || exists(at("/sys/module/nvidia"));
  m.version = trimmed(read_text(at("/sys/module/nvidia/version"), 256));
  if (!proc.empty()) {
    m.open = contains(proc, "Open Kernel Module");
    // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build"
    static const std::regex number(R"(\s(\d{3,}\.\d+(\.\d+)?)\s)");
    std::smatch match;
    const string first_line = proc.substr(0, std::min<size_t>(proc.find('\n'), 512)) + " ";
    if (m.version.empty() && std::regex_search(first_line, match, number)) m.version = match[1];
  }
  m.uvm = exists(at("/sys/module/nvidia_uvm"));
  m.nouveau = exists(at("/sys/module/nouveau"));
  for (const string& kernel : names_in(at("/lib/modules"))) {
    const string folder = at("/lib/modules/" + kernel);
    bool has = false;
    for (const string& line : split(read_text(folder + "/modules.dep"), '\n'))
      has = has || is_module(base_name(line.substr(0, line.find(':'))));
    for (const string& name : names_in(folder + "/updates/dkms")) has = has || is_module(name);
    if (kernel == facts.system.kernel) {
      m.on_disk = has;
      m.kernel_headers = exists(folder + "/build");
    } else if (has) {
      m.on_disk_other.push_back(kernel);
    }
  }
  for (const string& name : names_in(at("/usr/src")))
    if (starts_with(name, "nvidia-") && !contains(name, "toolkit")) m.dkms_source = true;
  for (const string& version : names_in(at("/var/lib/dkms/nvidia"), 20))
    if (const string log = "/var/lib/dkms/nvidia/" + version + "/build/make.log"; exists(at(log))) m.dkms_log = log;
  m.blacklisted_in = blacklisted_in(options.root);
  if (!m.version.empty()) m.gsp_firmware = gsp_firmware(options.root, m.version);
  for (const string& line : split(read_text(at("/proc/driver/nvidia/params")), '\n'))
    if (starts_with(line, "RmProfilingAdminOnly:")) m.profiling_admin_only = trimmed(line.substr(21)) == "1";
  for (const string& name : names_in(at("/var/lib/dpkg/info"))) {
    if (name.size() < 5 || name.substr(name.size() - 5) != ".list") continue;
    const string package = name.substr(0, std::min(name.find(':'), name.size() - 5));
    for (const char* start : {"libnvidia-compute-", "nvidia-utils-", "nvidia-driver-", "cuda-drivers", "nvidia-dkms-",
                              "libcuda1", "libnvidia-ml1"})
      if (starts_with(package, start)) m.packages.push_back(package);
  }
  facts.kernel_log = kernel_log(at("/dev/kmsg"));
}

}  // namespace env_check
