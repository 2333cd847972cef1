#include "env_check/gather.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "env_check/child.hpp"
#include "env_check/elf_file.hpp"
#include "env_check/probe.hpp"
#include "env_check/tables.hpp"

namespace env_check {
namespace {

namespace fs = std::filesystem;
using std::string;
using std::vector;

constexpr size_t kMaxFile = 8 << 20;

bool starts_with(const string& text, const string& start) { return text.rfind(start, 0) == 0; }
bool contains(const string& text, const string& part) { return text.find(part) != string::npos; }

string trimmed(string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  size_t at = 0;
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
  return text.substr(at);
}

vector<string> split(const string& text, char separator) {
  vector<string> parts;
  std::istringstream in(text);
  for (string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

string env_or_empty(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// At most `limit` bytes of a regular file (those of /proc and /sys count); "" if it cannot be read.
string read_text(const string& path, size_t limit = kMaxFile) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) return "";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  string text;
  char buffer[65536];
  while (text.size() < limit) {
    const ssize_t got = read(fd, buffer, std::min(sizeof buffer, limit - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  close(fd);
  return text;
}

bool exists(const string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0;
}
bool is_folder(const string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}
bool is_program(const string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && access(path.c_str(), X_OK) == 0;
}

string real_path(const string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) ? resolved : "";
}
string parent(const string& path) {
  const size_t slash = path.rfind('/');
  return slash == string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}
string base_name(const string& path) { return path.substr(path.rfind('/') + 1); }

// Names in a folder, sorted; none if it cannot be read.
vector<string> names_in(const string& folder, size_t limit = 100000) {
  vector<string> names;
  std::error_code error;
  fs::directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && it != end && names.size() < limit; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

string find_on_path(const string& program) {
  if (contains(program, "/")) return is_program(program) ? program : "";
  for (const string& folder : split(env_or_empty("PATH"), ':'))
    if (!folder.empty() && is_program(folder + "/" + program)) return folder + "/" + program;
  return "";
}

// The first "12.4" or "12.4.127" after `marker`; "" without one.
string version_after(const string& text, const string& marker) {
  const size_t at = text.find(marker);
  if (at == string::npos) return "";
  const string rest = text.substr(at + marker.size(), 200);
  size_t start = 0;
  while (start < rest.size() && !std::isdigit(static_cast<unsigned char>(rest[start]))) {
    if (rest[start] == '\n') return "";
    ++start;
  }
  return Version(rest.substr(start)).text();
}

std::optional<int> integer(const string& text, int base = 10) {
  const string t = trimmed(text);
  if (t.empty()) return std::nullopt;
  errno = 0;
  char* end = nullptr;
  const long value = std::strtol(t.c_str(), &end, base);
  if (errno != 0 || *end != '\0' || value < INT_MIN || value > INT_MAX) return std::nullopt;
  return static_cast<int>(value);
}

class Gatherer {
 public:
  explicit Gatherer(const GatherOptions& options) : o_(options) {}

  Facts run() {
    // The two driver libraries may take seconds: they are asked first and heard last.
    std::optional<DriverQuestion> cuda;
    std::optional<NvmlQuestion> nvml;
    if (o_.ask_driver) {
      cuda.emplace();
      nvml.emplace();
    }
    environment();
    toolkits();  // starts programs, so it comes early
    compilers();
    system();
    module();
    pci();
    nodes();
    libraries();
    wsl();
    containers();
    if (nvml) f_.nvml = nvml->answer(o_.driver_limit);
    if (cuda) f_.driver = cuda->answer(o_.driver_limit);
    for (const string& path : o_.binaries) f_.binaries.push_back(gather_binary(path, f_));
    return std::move(f_);
  }

 private:
  string at(const string& path) const { return o_.root + path; }

  void environment() {
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
                             "CUDAARCHS",
                             "CUDACXX",
                             "CUDAHOSTCXX",
                             "CUDA_HOME",
                             "CUDA_PATH",
                             "CONDA_PREFIX"})
      if (const char* value = std::getenv(name)) f_.environment[name] = value;
  }

  // ---- toolkits and compilers ----

  void add_toolkit(const string& nvcc, const string& from) {
    if (nvcc.empty() || !is_program(nvcc)) return;
    const string real = real_path(nvcc);
    Toolkit t;
    t.root = wrapped_root(real);
    if (t.root.empty()) t.root = parent(parent(real.empty() ? nvcc : real));
    t.nvcc = nvcc;
    t.from = from;
    for (const Toolkit& have : f_.toolkits)
      if (have.root == t.root) return;
    // nvcc looks beside the name it was called by: a lone link to it finds no headers, a wrapper script may look
    // anywhere.
    struct stat link {};
    const bool is_link = lstat(nvcc.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
    const bool wrapper = elf_kind(real).bits == 0;
    const string near = wrapper ? t.root : parent(parent(nvcc));
    if (!include_file(near, "cuda_runtime.h").empty())
      t.headers = true;
    else if (is_link && base_name(real) == "nvcc")
      t.headers = false;
    for (const string& folder : {t.root, near}) {
      const string header = include_file(folder, "crt/host_config.h");
      if (t.gcc_max || header.empty()) continue;
      t.gcc_max = integer(version_after(read_text(header, 1 << 20), "__GNUC__ > "));
    }
    f_.toolkits.push_back(t);
  }

  // The root behind a wrapper script (Debian's /usr/bin/nvcc, a module system's), which only nvcc itself knows:
  // "#$ TOP=/usr/local/cuda-13.0/bin/.." in what it would do. "" for nvcc itself.
  string wrapped_root(const string& real) const {
    if (real.empty() || elf_kind(real).bits != 0) return "";
    const string plan =
        Child::program({real, "--dryrun", "-E", "-x", "cu", "/dev/null"}, true).finish(o_.program_limit).output;
    for (const string& line : split(plan, '\n'))
      if (starts_with(line, "#$ TOP=")) return real_path(trimmed(line.substr(7)));
    return "";
  }

  static string include_file(const string& root, const string& name) {
    if (exists(root + "/include/" + name)) return root + "/include/" + name;
    for (const string& target : names_in(root + "/targets", 100))
      if (exists(root + "/targets/" + target + "/include/" + name))
        return root + "/targets/" + target + "/include/" + name;
    return "";
  }

  void toolkits() {
    add_toolkit(find_on_path(env_or_empty("CUDACXX")), "CUDACXX");
    for (const string& folder : split(env_or_empty("PATH"), ':'))
      if (!folder.empty()) add_toolkit(folder + "/nvcc", "PATH");
    for (const char* name : {"CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"})
      if (const string folder = env_or_empty(name); !folder.empty()) add_toolkit(folder + "/bin/nvcc", name);
    vector<string> folders = {"/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit"};
    vector<string> versions;
    for (const string& name : names_in(at("/usr/local")))
      if (starts_with(name, "cuda-")) versions.push_back(name.substr(5));
    std::sort(versions.begin(), versions.end(),
              [](const string& a, const string& b) { return Version(a) > Version(b); });
    for (const string& version : versions) folders.push_back("/usr/local/cuda-" + version);
    for (const string& folder : folders) add_toolkit(at(folder) + "/bin/nvcc", folder);

    for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
      if (const char* home = std::getenv(name); home && is_program(string(home) + "/bin/nvcc"))
        f_.homes_with_nvcc.push_back(name);

    struct stat link {};
    const string symlink = at("/usr/local/cuda");
    f_.usr_local_cuda = lstat(symlink.c_str(), &link) != 0 ? "missing" : exists(symlink) ? "ok" : "dangling";

    vector<Child> nvccs, ptxases;
    for (const Toolkit& t : f_.toolkits) {
      nvccs.push_back(Child::program({t.nvcc, "--version"}, true));
      ptxases.push_back(Child::program({t.root + "/bin/ptxas", "--version"}));
    }
    const string ptxas = find_on_path("ptxas");
    if (!ptxas.empty()) f_.path_ptxas = release_of(output_of({ptxas, "--version"}, o_.program_limit));
    for (size_t i = 0; i < f_.toolkits.size(); ++i) {
      Toolkit& t = f_.toolkits[i];
      const Child::Outcome said = nvccs[i].finish(o_.program_limit);
      t.version = release_of(said.output);
      if (t.version.empty())
        t.error = said.timed_out        ? "it did not answer"
                  : said.output.empty() ? fmt::format("it left with status {}", said.exit_code)
                                        : trimmed(split(said.output, '\n')[0]).substr(0, 200);
      t.ptxas = release_of(ptxases[i].finish(o_.program_limit).output);
    }
  }

  // "Cuda compilation tools, release 13.0, V13.0.88"
  static string release_of(const string& text) {
    const size_t at = text.find("release ");
    if (at == string::npos) return "";
    const string exact = version_after(text.substr(at), ", V");
    return exact.empty() ? version_after(text, "release ") : exact;
  }

  void compilers() {
    string choice, from;
    const auto consider = [&](const string& value, const char* name) {
      if (!choice.empty() || value.empty()) return;
      choice = value;
      from = name;
    };
    consider(env_or_empty("CUDAHOSTCXX"), "CUDAHOSTCXX");
    static const std::regex ccbin(R"((?:-ccbin|--compiler-bindir)[ =]+([^\s]+))");
    std::smatch match;
    const string flags = env_or_empty("NVCC_PREPEND_FLAGS").substr(0, 4096);
    if (std::regex_search(flags, match, ccbin)) consider(match[1], "NVCC_PREPEND_FLAGS");
    consider(env_or_empty("NVCC_CCBIN"), "NVCC_CCBIN");
    consider("g++", "PATH");
    if (is_folder(choice)) choice += "/g++";
    f_.compiler = describe_compiler(find_on_path(choice));
    f_.compiler.from = from;
    for (int major = 16; major >= 7; --major) {
      const string path = find_on_path(fmt::format("g++-{}", major));
      if (!path.empty()) f_.other_compilers.push_back({path, "gcc", std::to_string(major), "PATH"});
    }
    const string cmake = find_on_path("cmake");
    if (!cmake.empty()) f_.system.cmake = version_after(output_of({cmake, "--version"}, o_.program_limit), "version ");
    f_.nvidia_smi = find_on_path("nvidia-smi");
  }

  Compiler describe_compiler(const string& path) const {
    Compiler c;
    c.path = path;
    if (path.empty()) return c;
    const string text = output_of({path, "--version"}, o_.program_limit);
    if (contains(text, "clang version")) {
      c.kind = "clang";
      c.version = version_after(text, "clang version");
    } else {
      c.kind = "gcc";  // "g++ (Debian 12.2.0-14+deb12u1) 12.2.0"
      c.version = version_after(text, ") ");
    }
    return c;
  }

  // ---- the system ----

  void system() {
    System& s = f_.system;
    utsname name{};
    if (uname(&name) == 0) {
      s.kernel = name.release;
      s.machine = name.machine;
    }
    if (const string release = trimmed(read_text(at("/proc/sys/kernel/osrelease"))); !release.empty())
      s.kernel = release;
    string lower = s.kernel;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    s.wsl = contains(lower, "microsoft");
    s.container = container();
    s.tegra =
        exists(at("/etc/nv_tegra_release")) || contains(read_text(at("/proc/device-tree/compatible")), "nvidia,tegra");
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

  string container() const {
    if (std::getenv("KUBERNETES_SERVICE_HOST")) return "kubernetes";
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

  void module() {
    Module& m = f_.module;
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
      bool has = contains(read_text(folder + "/modules.dep"), "/nvidia.ko");
      for (const string& name : names_in(folder + "/updates/dkms")) has = has || starts_with(name, "nvidia.ko");
      if (kernel == f_.system.kernel) {
        m.on_disk = has;
        m.kernel_headers = exists(folder + "/build");
      } else if (has) {
        m.on_disk_other.push_back(kernel);
      }
    }
    for (const string& name : names_in(at("/usr/src")))
      if (starts_with(name, "nvidia-") && !contains(name, "toolkit")) m.dkms_source = true;
    for (const string& line : split(read_text(at("/proc/driver/nvidia/params")), '\n'))
      if (starts_with(line, "RmProfilingAdminOnly:")) m.profiling_admin_only = trimmed(line.substr(21)) == "1";
    for (const string& name : names_in(at("/var/lib/dpkg/info"))) {
      if (name.size() < 5 || name.substr(name.size() - 5) != ".list") continue;
      const string package = name.substr(0, std::min(name.find(':'), name.size() - 5));
      for (const char* start : {"libnvidia-compute-", "nvidia-utils-", "nvidia-driver-", "cuda-drivers", "nvidia-dkms-",
                                "libcuda1", "libnvidia-ml1"})
        if (starts_with(package, start)) m.packages.push_back(package);
    }
  }

  void pci() {
    const string folder = at("/sys/bus/pci/devices/");
    for (const string& bdf : names_in(folder)) {
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
      f_.pci.push_back(p);
    }
  }

  // Opening a node is the only way to see a container's device rules, and it may hang: a child does it. The cards' own
  // nodes are not opened (that would wake the card), only their permission is read.
  void nodes() {
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
    for (const string& name : names_in(at("/dev"))) {
      const bool card =
          starts_with(name, "nvidia") && name.size() > 6 && name.find_first_not_of("0123456789", 6) == string::npos;
      const bool tegra = name == "nvhost-gpu" || name == "nvmap";
      if (!card && !tegra && name != "nvidiactl" && name != "nvidia-uvm") continue;
      DeviceNode node;
      node.path = "/dev/" + name;
      struct stat st {};
      if (stat(at(node.path).c_str(), &st) == 0) {
        node.mode = static_cast<int>(st.st_mode & 07777);
        if (S_ISCHR(st.st_mode)) node.major = static_cast<int>(major(st.st_rdev));
      }
      node.expected_major = name == "nvidia-uvm" ? major_of("nvidia-uvm")
                            : tegra              ? std::nullopt
                            : major_of("nvidia") ? major_of("nvidia")
                                                 : major_of("nvidia-frontend");
      const string path = at(node.path);
      const Child::Outcome tried = Child([&](int out) {
                                     int error = 0;
                                     if (card || tegra) {
                                       error =
                                           faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) == 0 ? 0 : errno;
                                     } else {
                                       const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
                                       error = fd >= 0 ? 0 : errno;
                                     }
                                     const string text = error_name(error);
                                     if (write(out, text.data(), text.size()) < 0) _exit(1);
                                   }).finish(o_.program_limit);
      node.error = tried.timed_out ? "timeout" : tried.output;
      f_.nodes.push_back(node);
    }
  }

  static string error_name(int error) {
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

  // ---- libraries ----

  static bool wanted(const string& name) {
    static const std::regex form(
        R"(lib(cuda|cudart|cublas|cublasLt|cusparse|cusolver|nvJitLink|nvrtc|cudnn|nvidia-ml|nvidia-ptxjitcompiler)\.so(\.\d+)*)");
    return name.size() < 80 && std::regex_match(name, form);
  }

  void add_library(const string& path, const string& where) {
    Library l;
    l.name = base_name(path);
    l.path = path;
    l.real = real_path(path);
    l.where = where;
    const string real_name = base_name(l.real);
    const size_t so = real_name.find(".so.");
    if (so != string::npos) l.version = Version(real_name.substr(so + 4)).text();
    struct stat st {};
    if (stat(path.c_str(), &st) == 0) l.size = st.st_size;
    const ElfKind kind = elf_kind(path);
    l.elf_bits = kind.bits;
    l.machine = kind.machine;
    for (const Library& have : f_.libraries)
      if (have.path == l.path && have.where == l.where) return;
    if (f_.libraries.size() < 2000) f_.libraries.push_back(l);
  }

  void folder_libraries(const string& folder, const string& where, const vector<string>& starts = {}) {
    for (const string& name : names_in(folder)) {
      if (!starts_with(name, "lib") || !wanted(name)) continue;
      bool asked = starts.empty();
      for (const string& start : starts) asked = asked || starts_with(name, start);
      if (asked) add_library(folder + "/" + name, where);
    }
  }

  void libraries() {
    for (const string& folder : split(env_or_empty("LD_LIBRARY_PATH"), ':'))
      if (!folder.empty()) folder_libraries(folder, "LD_LIBRARY_PATH");
    for (const char* ldconfig : {"/sbin/ldconfig", "/usr/sbin/ldconfig"}) {
      if (!o_.root.empty() || !is_program(ldconfig)) continue;
      // "	libcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1"
      for (const string& line : split(output_of({ldconfig, "-p"}, o_.program_limit), '\n')) {
        const size_t arrow = line.find(" => ");
        if (arrow == string::npos) continue;
        const string path = line.substr(arrow + 4);
        if (wanted(base_name(path))) add_library(path, "cache");
      }
      break;
    }
    for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"})
      folder_libraries(at(folder), "default", {"libcuda.so", "libnvidia-ml.so"});
    vector<string> folders = {"/usr/lib/wsl/lib",       "/usr/local/nvidia/lib64", "/usr/lib64-nvidia",
                              "/run/opengl-driver/lib", "/var/lib/nvidia/lib64",   "/home/kubernetes/bin/nvidia/lib64"};
    for (const string& name : names_in(at("/usr/local")))
      if (starts_with(name, "cuda")) {
        folders.push_back("/usr/local/" + name + "/compat");
        folder_libraries(at("/usr/local/" + name + "/lib64"), "unsearched", {"libcudart.so."});
      }
    for (const string& folder : folders) {
      if (is_searched(at(folder))) continue;
      folder_libraries(at(folder), "unsearched", {"libcuda.so", "libnvidia-ml.so"});
    }
  }

  bool is_searched(const string& folder) const {
    const string real = real_path(folder);
    for (const Library& l : f_.libraries)
      if (l.where != "unsearched" && l.where != "default" && (parent(l.path) == folder || parent(l.path) == real))
        return true;
    return false;
  }

  // ---- WSL and containers ----

  void wsl() {
    f_.wsl.dxg = exists(at("/dev/dxg"));
    for (const string& name : names_in(at("/usr/lib/wsl/lib")))
      if (starts_with(name, "libcuda") || starts_with(name, "libnvidia-ml") || name == "nvidia-smi")
        f_.wsl.libraries.push_back(name);
    for (const string& name : names_in(at("/etc/ld.so.conf.d")))
      if (contains(read_text(at("/etc/ld.so.conf.d/" + name), 65536), "/usr/lib/wsl/lib")) f_.wsl.loader_conf = true;
  }

  void containers() {
    Containers& c = f_.containers;
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

  const GatherOptions& o_;
  Facts f_;
};

}  // namespace

Facts gather(const GatherOptions& options) { return Gatherer(options).run(); }

Binary gather_binary(const string& path, const Facts& facts) {
  ElfDetails details = read_binary(path);
  const auto usable = [&](const string& file) {
    const ElfKind kind = elf_kind(file);
    return kind.bits == details.binary.elf_bits && kind.machine == details.binary.machine;
  };
  const auto search = [&](NeededLibrary& library, const string& folders, const char* why) {
    for (const string& folder : split(folders, ':')) {
      if (!library.path.empty() || folder.empty() || !usable(folder + "/" + library.name)) continue;
      library.path = folder + "/" + library.name;
      library.why = why;
    }
  };
  for (NeededLibrary& library : details.binary.needed) {
    // ld.so(8): RPATH (only without a RUNPATH), LD_LIBRARY_PATH, RUNPATH, the cache, the default folders.
    if (!details.is_runpath) search(library, details.search_path, "RPATH");
    if (const string* folders = facts.env("LD_LIBRARY_PATH")) search(library, *folders, "LD_LIBRARY_PATH");
    if (details.is_runpath) search(library, details.search_path, "RUNPATH");
    for (const Library& have : facts.libraries)
      if (library.path.empty() && have.where == "cache" && have.name == library.name && usable(have.path)) {
        library.path = have.path;
        library.why = "cache";
      }
    search(library,
           "/lib/" + facts.system.machine + "-linux-gnu:/usr/lib/" + facts.system.machine +
               "-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib",
           "default folder");
  }
  return details.binary;
}

}  // namespace env_check
