// What libcuda says: what programs use.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "env_check/probe.hpp"
#include "env_check/probe_child.hpp"

namespace env_check {
namespace {

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
  const auto start = std::chrono::steady_clock::now();
  const int init_result = init(0);
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  reporter.say({{"init_result", init_result}, {"init_ms", took.count()}});
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
  probe.init_ms = number(a, "init_ms");
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

}  // namespace env_check
