// The machine itself: environment, kernel, container or sandbox, limits, processes that matter.
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "env_check/files.hpp"
#include "env_check/gather_parts.hpp"
#include "env_check/tables.hpp"

namespace env_check {

using std::string;

void gather_environment(Facts& facts) {
  for (const char* name : {"CUDA_VISIBLE_DEVICES",
                           "CUDA_DEVICE_ORDER",
                           "NVIDIA_VISIBLE_DEVICES",
                           "NVIDIA_DRIVER_CAPABILITIES",
                           "NVIDIA_REQUIRE_CUDA",
                           "NVIDIA_DISABLE_REQUIRE",
                           "CUDA_MPS_PIPE_DIRECTORY",
                           "CUDA_CACHE_DISABLE",
                           "CUDA_CACHE_PATH",
                           "CUDA_CACHE_MAXSIZE",
                           "CUDA_FORCE_PTX_JIT",
                           "CUDA_DISABLE_PTX_JIT",
                           "LD_LIBRARY_PATH",
                           "LD_PRELOAD",
                           "NVCC_PREPEND_FLAGS",
                           "NVCC_APPEND_FLAGS",
                           "NVCC_CCBIN",
                           "CUDA_LAUNCH_BLOCKING",
                           "TORCH_CUDA_ARCH_LIST",
                           "CUDAARCHS",
                           "CUDACXX",
                           "CUDAHOSTCXX",
                           "CUDA_HOME",
                           "CUDA_PATH",
                           "VIRTUAL_ENV",
                           "CONDA_PREFIX"})
    if (const char* value = std::getenv(name)) facts.environment[name] = value;
}

namespace {

string container(const string& root) {
  const auto at = [&](const string& path) { return root + path; };
  if (std::getenv("KUBERNETES_SERVICE_HOST")) return "kubernetes";
  for (const char* name : {"APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"})
    if (std::getenv(name)) return "apptainer";
  if (exists(at("/.dockerenv"))) return "docker";
  if (exists(at("/run/.containerenv"))) return "podman";
  const string systemd = trimmed(read_text(at("/run/systemd/container"), 64));
  if (systemd == "wsl") return "";
  if (!systemd.empty()) return systemd;
  const string first = read_text(at("/proc/1/environ"));
  if (contains(first, "container=lxc")) return "lxc";
  const string cgroup = read_text(at("/proc/1/cgroup"));
  for (const char* name : {"docker", "kubepods", "lxc", "podman"})
    if (contains(cgroup, string("/") + name)) return string(name) == "kubepods" ? "kubernetes" : name;
  for (const string& line : split(read_text(at("/proc/self/mountinfo")), '\n'))
    if (contains(line, " / / ") && contains(line, "lowerdir=") &&
        (contains(line, "/docker/") || contains(line, "containerd") || contains(line, "containers/storage")))
      return "container";
  return "";
}

string sandbox(const string& root) {
  if (std::getenv("SNAP") && std::getenv("SNAP_REVISION")) return "snap";
  return exists(root + "/.flatpak-info") ? "flatpak" : "";
}

// Who started this: a batch system or a systemd unit may admit fewer device files than a shell has.
string service() {
  if (std::getenv("SLURM_JOB_ID")) return "slurm";
  if (std::getenv("PBS_JOBID") || std::getenv("LSB_JOBID") || std::getenv("JOB_ID")) return "batch";
  return std::getenv("INVOCATION_ID") && !isatty(STDIN_FILENO) ? "systemd" : "";
}

// The folders below glibc-hwcaps that ld.so looks into on this processor (glibc 2.33 and later), best first.
std::vector<string> hwcaps(const string& cpuinfo) {
  const size_t at = cpuinfo.find("\nflags");
  const string flags = at == string::npos ? "" : cpuinfo.substr(at, cpuinfo.find('\n', at + 1) - at) + " ";
  const std::pair<const char*, std::vector<const char*>> levels[] = {
      {"x86-64-v2", {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}},
      {"x86-64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}},
      {"x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}}};
  std::vector<string> names;
  for (const auto& [name, needed] : levels) {
    for (const char* flag : needed)
      if (!contains(flags, string(" ") + flag + " ")) return names;
    names.insert(names.begin(), name);
  }
  return names;
}

// Laptops with two GPUs: the choice of prime-select (Ubuntu), or a card that bbswitch or ACPI has switched off.
string prime(const string& root) {
  if (contains(read_text(root + "/proc/acpi/bbswitch", 256), "OFF")) return "off";
  return trimmed(read_text(root + "/etc/prime-discrete", 64));
}

// Of the first package nvidia-fabricmanager… in dpkg's list: "535.183.01".
string fabric_manager_version(const string& root) {
  const string status = read_text(root + "/var/lib/dpkg/status", 64 << 20);
  const size_t at = status.find("\nPackage: nvidia-fabricmanager");
  if (at == string::npos) return "";
  const size_t end = std::min(status.find("\n\n", at + 1), status.size());
  return version_after(status.substr(at, end - at), "\nVersion: ");
}

// Whether the driver can keep compiled PTX. Unknown when HOME is not set.
std::optional<bool> jit_cache_writable() {
  string folder = env_or_empty("CUDA_CACHE_PATH");
  if (folder.empty() && env_or_empty("HOME").empty()) return std::nullopt;
  if (folder.empty()) folder = env_or_empty("HOME") + "/.nv/ComputeCache";
  while (folder.size() > 1 && !exists(folder)) folder = parent(folder);
  return access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace

void gather_system(Facts& facts, const GatherOptions& options) {
  const auto at = [&](const string& path) { return options.root + path; };
  System& s = facts.system;
  utsname name{};
  if (uname(&name) == 0) {
    s.kernel = name.release;
    s.machine = name.machine;
  }
  if (const string release = trimmed(read_text(at("/proc/sys/kernel/osrelease"))); !release.empty()) s.kernel = release;
  string lower = s.kernel;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  // A kernel built at home may have any name, but its WSL still has the door to Windows.
  s.wsl = contains(lower, "microsoft") || exists(at("/proc/sys/fs/binfmt_misc/WSLInterop")) ||
          exists(at("/usr/lib/wsl/lib")) || exists(at("/dev/dxg"));
  s.container = container(options.root);
  s.sandbox = sandbox(options.root);
  s.service = service();
  s.tegra =
      exists(at("/etc/nv_tegra_release")) || contains(read_text(at("/proc/device-tree/compatible")), "nvidia,tegra");
  // "# R36 (release), REVISION: 4.0, …"
  const string l4t = read_text(at("/etc/nv_tegra_release"), 4096);
  if (const string major = version_after(l4t, "# R"); !major.empty())
    s.l4t = major + "." + version_after(l4t, "REVISION: ");
  s.root = geteuid() == 0;
  s.sudo = std::getenv("SUDO_USER") != nullptr;
  for (const string& line : split(read_text(at("/proc/self/status")), '\n'))
    if (starts_with(line, "CapEff:")) s.sys_admin = std::strtoull(line.c_str() + 7, nullptr, 16) >> 21 & 1;
  string id, version;
  for (const string& line : split(read_text(at("/etc/os-release")), '\n')) {
    string value = line.substr(line.find('=') + 1);
    value.erase(std::remove(value.begin(), value.end(), '"'), value.end());
    if (starts_with(line, "ID=")) id = value;
    if (starts_with(line, "VERSION_ID=")) version = value;
  }
  s.distribution = trimmed(id + " " + version);
  const string secure = read_text(at("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"));
  if (secure.size() >= 5) s.secure_boot = secure[4] == 1;
  s.glibc = gnu_get_libc_version();
  s.suspends = integer(read_text(at("/sys/power/suspend_stats/success"))).value_or(0);
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    s.address_limit = static_cast<int64_t>(limit.rlim_cur / 1024);
  s.overcommit = integer(read_text(at("/proc/sys/vm/overcommit_memory"), 64));
  const string cpuinfo = read_text(at("/proc/cpuinfo"), 16384);
  s.virtual_machine = contains(cpuinfo, " hypervisor");
  if (Version(s.glibc) >= Version(2, 33)) s.hwcaps = hwcaps("\n" + cpuinfo);
  s.fabric_manager_version = fabric_manager_version(options.root);
  s.prime = prime(options.root);
  s.jit_cache_writable = jit_cache_writable();
  for (const string& word : split(trimmed(read_text(at("/proc/cmdline"))), ' '))
    if (starts_with(word, "firmware_class.path=")) {
      s.firmware_path = word.substr(word.find('=') + 1);
      s.firmware_path_missing = !is_folder(at(s.firmware_path));
    }
  for (const string& entry : names_in(at("/proc"))) {
    if (!std::isdigit(static_cast<unsigned char>(entry[0]))) continue;
    const string comm = trimmed(read_text(at("/proc/" + entry + "/comm"), 64));
    // The kernel keeps 15 characters of a name.
    if (comm == "nv-fabricmanage") s.fabric_manager = true;
    if (comm == "nvidia-cuda-mps") s.mps_daemon = true;
  }
  const string pipes = env_or_empty("CUDA_MPS_PIPE_DIRECTORY");
  s.mps_control = exists((pipes.empty() ? at("/tmp/nvidia-mps") : pipes) + "/control");
}

}  // namespace env_check
