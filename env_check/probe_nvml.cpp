// What libnvidia-ml says: what nvidia-smi uses.
#include <algorithm>
#include <cstring>

#include "env_check/probe.hpp"
#include "env_check/probe_child.hpp"

namespace env_check {
namespace {

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
  const auto memory = symbol<int (*)(Device, void*)>(lib, "nvmlDeviceGetMemoryInfo");
  const auto ecc = symbol<int (*)(Device, int, int, unsigned long long*)>(lib, "nvmlDeviceGetTotalEccErrors");
  const auto persistence = symbol<int (*)(Device, int*)>(lib, "nvmlDeviceGetPersistenceMode");
  const auto fabric = symbol<int (*)(Device, void*)>(lib, "nvmlDeviceGetGpuFabricInfo");
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
    unsigned long long bytes[16] = {};  // nvmlMemory_t: total, free, used
    if (memory && memory(device, bytes) == 0) {
      d["memory_mib"] = bytes[0] >> 20;
      d["memory_free_mib"] = bytes[1] >> 20;
    }
    unsigned long long errors = 0;
    enum { kUncorrected = 1, kVolatile = 0 };
    if (ecc && ecc(device, kUncorrected, kVolatile, &errors) == 0) d["ecc_uncorrected"] = std::min(errors, 1000000ull);
    if (persistence && persistence(device, &value) == 0) d["persistence"] = value;
    // nvmlGpuFabricInfo_t: a UUID of 16 bytes, a status and a clique id of 4 bytes each, the state.
    unsigned char state[512] = {};
    if (fabric && fabric(device, state) == 0) d["fabric_state"] = state[24];
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
    device.memory_mib = number(d, "memory_mib");
    device.memory_free_mib = number(d, "memory_free_mib");
    device.ecc_uncorrected = number(d, "ecc_uncorrected");
    device.persistence = number(d, "persistence");
    device.fabric_state = number(d, "fabric_state");
    device.virtualization = number(d, "virtualization");
    probe.devices.push_back(device);
  }
  return probe;
}

}  // namespace env_check
