#include "env_check/probe.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

namespace env_check {
namespace {

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
json merged(const std::string& lines) {
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

std::string state_of(const Child::Outcome& outcome, const json& answers) {
  if (!outcome.started) return "";
  if (outcome.timed_out) return "timeout";
  if (outcome.crashed || outcome.exit_code != 0) return "crashed";
  return answers.value("loaded", false) ? "answered" : "not_loaded";
}

std::optional<int> number(const json& j, const char* key) {
  const auto it = j.find(key);
  if (it == j.end() || !it->is_number_integer()) return std::nullopt;
  return it->get<int>();
}

std::string real_path_of(void* symbol) {
  Dl_info info{};
  if (!symbol || !dladdr(symbol, &info) || !info.dli_fname) return "";
  char resolved[PATH_MAX];
  return realpath(info.dli_fname, resolved) ? resolved : info.dli_fname;
}

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

std::string uuid_text(const unsigned char (&u)[16]) {
  char text[64];
  std::snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
                u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
  return text;
}

// Only what is needed of the driver API, declared here: this program must build where no CUDA header exists. The
// numbers are those of cuda.h and have been stable since CUDA 4 (UUIDs: 11.4's _v2, which knows MIG).
void ask_cuda(int out) {
  const Reporter reporter(out);
  reporter.step("loading libcuda.so.1");
  void* lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    const char* error = dlerror();
    reporter.say({{"loaded", false}, {"error", error ? error : "dlopen failed"}});
    return;
  }
  const auto get_version = symbol<int (*)(int*)>(lib, "cuDriverGetVersion");
  const auto init = symbol<int (*)(unsigned)>(lib, "cuInit");
  const auto get_count = symbol<int (*)(int*)>(lib, "cuDeviceGetCount");
  const auto get = symbol<int (*)(int*, int)>(lib, "cuDeviceGet");
  const auto get_name = symbol<int (*)(char*, int, int)>(lib, "cuDeviceGetName");
  const auto attribute = symbol<int (*)(int*, int, int)>(lib, "cuDeviceGetAttribute");
  reporter.say({{"loaded", true}, {"path", real_path_of(reinterpret_cast<void*>(init))}});
  if (!get_version || !init || !get_count || !get || !get_name || !attribute) {
    reporter.say({{"loaded", false}, {"error", "libcuda.so.1 lacks the functions of a CUDA driver"}});
    return;
  }

  reporter.step("loading libnvidia-ptxjitcompiler.so.1");
  const bool jit = dlopen("libnvidia-ptxjitcompiler.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr;
  const char* jit_error = jit ? nullptr : dlerror();
  reporter.say({{"jit_library", jit}, {"jit_error", jit_error ? jit_error : ""}});

  reporter.step("cuDriverGetVersion");
  int version = 0;
  const int version_result = get_version(&version);
  reporter.say({{"version_result", version_result}, {"version", version}});
  reporter.step("cuInit");
  const int init_result = init(0);
  reporter.say({{"init_result", init_result}});
  if (init_result != 0) return;
  reporter.step("cuDeviceGetCount");
  int count = 0;
  const int count_result = get_count(&count);
  reporter.say({{"count_result", count_result}, {"count", count}});
  if (count_result != 0) return;

  enum { kComputeMode = 20, kMajor = 75, kMinor = 76, kManagedMemory = 83 };
  const auto get_uuid = symbol<int (*)(unsigned char*, int)>(lib, "cuDeviceGetUuid_v2");
  const auto get_pci = symbol<int (*)(char*, int, int)>(lib, "cuDeviceGetPCIBusId");
  int first = -1;
  for (int i = 0; i < count; ++i) {
    reporter.step("reading device attributes");
    int device = 0;
    if (get(&device, i) != 0) continue;
    if (first < 0) first = device;
    json d = json::object();
    char name[256] = {}, pci[64] = {};
    if (get_name(name, sizeof name - 1, device) == 0) d["name"] = name;
    if (get_pci && get_pci(pci, sizeof pci - 1, device) == 0) d["pci"] = pci;
    unsigned char uuid[16] = {};
    if (get_uuid && get_uuid(uuid, device) == 0) d["uuid"] = uuid_text(uuid);
    for (const auto& [key, which] : {std::pair<const char*, int>{"major", kMajor},
                                     {"minor", kMinor},
                                     {"compute_mode", kComputeMode},
                                     {"managed_memory", kManagedMemory}}) {
      int value = 0;
      if (attribute(&value, which, device) == 0) d[key] = value;
    }
    reporter.say({{"device", d}});
  }

  // A context is the first thing that can fail although everything above went well (exclusive mode, ECC, MPS).
  const auto retain = symbol<int (*)(void**, int)>(lib, "cuDevicePrimaryCtxRetain");
  const auto release = symbol<int (*)(int)>(lib, "cuDevicePrimaryCtxRelease_v2");
  if (first < 0 || !retain) return;
  reporter.step("creating a context");
  void* context = nullptr;
  const int context_result = retain(&context, first);
  reporter.say({{"context_result", context_result}});
  if (context_result == 0 && release) release(first);
}

void ask_nvml(int out) {
  const Reporter reporter(out);
  reporter.step("loading libnvidia-ml.so.1");
  void* lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    const char* error = dlerror();
    reporter.say({{"loaded", false}, {"error", error ? error : "dlopen failed"}});
    return;
  }
  using Device = void*;
  const auto init = symbol<int (*)()>(lib, "nvmlInit_v2");
  const auto get_count = symbol<int (*)(unsigned*)>(lib, "nvmlDeviceGetCount_v2");
  const auto get = symbol<int (*)(unsigned, Device*)>(lib, "nvmlDeviceGetHandleByIndex_v2");
  reporter.say({{"loaded", true}, {"path", real_path_of(reinterpret_cast<void*>(init))}});
  if (!init || !get_count || !get) {
    reporter.say({{"loaded", false}, {"error", "libnvidia-ml.so.1 lacks the functions of NVML"}});
    return;
  }
  reporter.step("nvmlInit");
  const int init_result = init();
  reporter.say({{"init_result", init_result}});
  if (init_result != 0) return;

  reporter.step("reading NVML");
  char driver[96] = {};
  if (auto f = symbol<int (*)(char*, unsigned)>(lib, "nvmlSystemGetDriverVersion"); f && f(driver, sizeof driver) == 0)
    reporter.say({{"driver_version", driver}});
  int cuda = 0;
  if (auto f = symbol<int (*)(int*)>(lib, "nvmlSystemGetCudaDriverVersion_v2"); f && f(&cuda) == 0)
    reporter.say({{"cuda_version", cuda}});

  const auto name = symbol<int (*)(Device, char*, unsigned)>(lib, "nvmlDeviceGetName");
  const auto uuid = symbol<int (*)(Device, char*, unsigned)>(lib, "nvmlDeviceGetUUID");
  const auto pci = symbol<int (*)(Device, void*)>(lib, "nvmlDeviceGetPciInfo_v3");
  const auto mode = symbol<int (*)(Device, int*)>(lib, "nvmlDeviceGetComputeMode");
  const auto mig = symbol<int (*)(Device, unsigned*, unsigned*)>(lib, "nvmlDeviceGetMigMode");
  const auto mig_max = symbol<int (*)(Device, unsigned*)>(lib, "nvmlDeviceGetMaxMigDeviceCount");
  const auto mig_get = symbol<int (*)(Device, unsigned, Device*)>(lib, "nvmlDeviceGetMigDeviceHandleByIndex");
  const auto remap =
      symbol<int (*)(Device, unsigned*, unsigned*, unsigned*, unsigned*)>(lib, "nvmlDeviceGetRemappedRows");
  const auto virtual_mode = symbol<int (*)(Device, int*)>(lib, "nvmlDeviceGetVirtualizationMode");
  const auto processes = symbol<int (*)(Device, unsigned*, void*)>(lib, "nvmlDeviceGetComputeRunningProcesses_v3");
  unsigned count = 0;
  if (get_count(&count) != 0) return;
  for (unsigned i = 0; i < count && i < 64; ++i) {
    json d = json::object();
    Device device = nullptr;
    if (get(i, &device) != 0) continue;
    char text[96] = {};
    if (name && name(device, text, sizeof text) == 0) d["name"] = text;
    if (uuid && uuid(device, text, sizeof text) == 0) d["uuid"] = text;
    // nvmlPciInfo_t ends with the bus id after a 16-byte legacy id and five words.
    char info[512] = {};
    if (pci && pci(device, info) == 0) d["pci"] = std::string(info + 36, strnlen(info + 36, 32));
    int value = 0;
    if (mode && mode(device, &value) == 0) d["compute_mode"] = value;
    if (virtual_mode && virtual_mode(device, &value) == 0) d["virtualization"] = value;
    unsigned current = 0, pending = 0, corrected = 0, uncorrected = 0, failure = 0;
    if (mig && mig(device, &current, &pending) == 0) {
      d["mig_current"] = current;
      d["mig_pending"] = pending;
      unsigned most = 0, made = 0;
      if (current == 1 && mig_max && mig_get && mig_max(device, &most) == 0) {
        for (unsigned k = 0; k < most && k < 64; ++k) {
          Device instance = nullptr;
          made += mig_get(device, k, &instance) == 0;
        }
        d["mig_devices"] = made;
      }
    }
    if (remap && remap(device, &corrected, &uncorrected, &pending, &failure) == 0) {
      d["remap_pending"] = pending;
      d["remap_failure"] = failure;
    }
    // Asked with room for none, NVML answers with the number: 0 = success, 7 = insufficient size.
    unsigned running = 0;
    if (processes) {
      const int result = processes(device, &running, nullptr);
      if (result == 0 || result == 7) d["processes"] = running;
    }
    reporter.say({{"device", d}});
  }
}

}  // namespace

DriverQuestion::DriverQuestion() : child_(ask_cuda) {}

DriverProbe DriverQuestion::answer(std::chrono::milliseconds limit) {
  const Child::Outcome outcome = child_.finish(limit);
  const json a = merged(outcome.output);
  DriverProbe probe;
  probe.state = state_of(outcome, a);
  probe.last_step = a.value("step", "");
  probe.error = a.value("error", "");
  probe.path = a.value("path", "");
  probe.version_result = number(a, "version_result");
  if (probe.version_result == 0) probe.version = number(a, "version");
  probe.init_result = number(a, "init_result");
  probe.count_result = number(a, "count_result");
  if (probe.count_result == 0) probe.count = number(a, "count");
  probe.context_result = number(a, "context_result");
  if (a.contains("jit_library")) probe.jit_library = a.value("jit_library", false);
  probe.jit_error = a.value("jit_error", "");
  for (const json& d : a["devices"]) {
    CudaDevice device;
    device.name = d.value("name", "");
    device.major = number(d, "major").value_or(0);
    device.minor = number(d, "minor").value_or(0);
    device.uuid = d.value("uuid", "");
    device.pci = d.value("pci", "");
    device.compute_mode = number(d, "compute_mode");
    device.managed_memory = number(d, "managed_memory");
    probe.devices.push_back(device);
  }
  const bool failed = probe.state == "answered" && (probe.init_result.value_or(0) != 0 || probe.count == 0);
  if (!failed) return probe;

  // A failure is asked about twice more: without the variable that hides cards, and with the driver's own log.
  if (std::getenv("CUDA_VISIBLE_DEVICES")) {
    Child unmasked([](int out) {
      unsetenv("CUDA_VISIBLE_DEVICES");
      ask_cuda(out);
    });
    const json again = merged(unmasked.finish(limit).output);
    probe.unmasked_count = again.contains("init_result") ? number(again, "count").value_or(0) : std::optional<int>();
  }
  Child talking([](int out) {
    setenv("CUDA_LOG_FILE", "stderr", 1);
    dup2(out, 2);
    const int quiet = dup(0);  // the JSON lines of the second run are not wanted
    ask_cuda(quiet);
  });
  std::istringstream lines(talking.finish(limit).output);
  for (std::string line; std::getline(lines, line) && probe.log.size() < 5;)
    if (!line.empty()) probe.log.push_back(line.substr(0, 300));
  return probe;
}

NvmlQuestion::NvmlQuestion() : child_(ask_nvml) {}

NvmlProbe NvmlQuestion::answer(std::chrono::milliseconds limit) {
  const Child::Outcome outcome = child_.finish(limit);
  const json a = merged(outcome.output);
  NvmlProbe probe;
  probe.state = state_of(outcome, a);
  probe.last_step = a.value("step", "");
  probe.error = a.value("error", "");
  probe.path = a.value("path", "");
  probe.init_result = number(a, "init_result");
  probe.driver_version = a.value("driver_version", "");
  probe.cuda_version = number(a, "cuda_version");
  for (const json& d : a["devices"]) {
    NvmlDevice device;
    device.name = d.value("name", "");
    device.uuid = d.value("uuid", "");
    device.pci = d.value("pci", "");
    device.compute_mode = number(d, "compute_mode");
    device.processes = number(d, "processes");
    device.mig_current = number(d, "mig_current");
    device.mig_pending = number(d, "mig_pending");
    device.mig_devices = number(d, "mig_devices");
    device.remap_pending = number(d, "remap_pending");
    device.remap_failure = number(d, "remap_failure");
    device.virtualization = number(d, "virtualization");
    probe.devices.push_back(device);
  }
  return probe;
}

}  // namespace env_check
