// A driver that answers: what may still keep a program from its card, or give it another one than expected.
#include <fmt/format.h>

#include <set>

#include "env_check/diagnosis.hpp"

namespace env_check {
namespace {

void check_mig(Diagnosis& d) {  // case 27
  for (size_t i = 0; i < d.f.nvml.devices.size(); ++i) {
    const NvmlDevice& n = d.f.nvml.devices[i];
    if (n.mig_current && n.mig_pending && *n.mig_current != *n.mig_pending)
      d.warning("mig_pending", "A change of the MIG mode waits for a reset of the card.",
                {fmt::format("card {}: MIG mode {}, pending {}", i, *n.mig_current, *n.mig_pending)},
                {fmt::format("sudo nvidia-smi --gpu-reset -i {}   # no program may use the card", i)});
    if (n.mig_current == 1 && n.mig_devices == 0) {
      const bool only = !d.works;
      d.add(only ? Severity::kError : Severity::kWarning, "mig_without_instance",
            "MIG is on, but the card is not divided: CUDA sees no device on it.",
            {fmt::format("card {} ({}): MIG on, 0 instances", i, n.name)},
            {"sudo nvidia-smi mig -lgip   # the possible profiles",
             fmt::format("sudo nvidia-smi mig -i {} -cgi <profile> -C", i),
             fmt::format("# or without MIG: sudo nvidia-smi -i {} -mig 0", i)});
    }
  }
}

void check_ecc(Diagnosis& d) {  // case 20
  for (size_t i = 0; i < d.f.nvml.devices.size(); ++i) {
    const NvmlDevice& n = d.f.nvml.devices[i];
    const bool failed = n.remap_failure.value_or(0) != 0, pending = n.remap_pending.value_or(0) != 0;
    if (!failed && !pending) continue;
    d.add(failed ? Severity::kError : Severity::kWarning, "ecc",
          failed ? "The card could not repair a broken memory row: it wants replacing."
                 : "The card found a broken memory row and repairs it at the next reset.",
          {fmt::format("card {} ({}): row remap {}", i, n.name, failed ? "failed" : "pending")},
          {"nvidia-smi -q -d ECC,ROW_REMAPPER", "sudo reboot"});
  }
  for (size_t i = 0; i < d.f.nvml.devices.size(); ++i)
    if (const NvmlDevice& n = d.f.nvml.devices[i]; n.ecc_uncorrected.value_or(0) > 0 && !d.has("ecc"))
      d.warning("ecc", "The card has had uncorrectable memory errors since the driver was loaded.",
                {fmt::format("card {} ({}): {} uncorrectable errors", i, n.name, *n.ecc_uncorrected)},
                {"nvidia-smi -q -d ECC,ROW_REMAPPER", "sudo reboot   # if they return, replace the card"});
}

// A slice exists, but its own device files are closed or were not given to the container.
void check_mig_access(Diagnosis& d) {
  if (d.works || d.any_error()) return;
  for (const NvmlDevice& n : d.f.nvml.devices) {
    if (n.mig_current != 1 || n.mig_devices.value_or(0) == 0) continue;
    Lines how = {fmt::format("{}: MIG on, {} instances", n.name, *n.mig_devices)};
    bool any = false;
    for (const DeviceNode& node : d.f.nodes)
      if (node.path.rfind("/dev/nvidia-caps/", 0) == 0) {
        any = any || node.error.empty();
        how.push_back(node.path + ": " + (node.error.empty() ? "open to this process" : node.error));
      }
    if (any) continue;
    if (how.size() == 1) how.push_back("/dev/nvidia-caps holds no file");
    d.error("mig_slice_closed", "The card is divided (MIG), but none of the slices is open to this process.", how,
            {"nvidia-smi -L   # the slices, as far as this process may see them",
             "docker run --gpus '\"device=0:0\"' …   # a container is given a slice by its number or UUID",
             "sudo nvidia-modprobe -c 0 -u -f /proc/driver/nvidia/capabilities/gpu0/mig/gi1/access"});
    return;
  }
}

bool is_vgpu(const Diagnosis& d) {
  for (const NvmlDevice& n : d.f.nvml.devices)
    if (n.virtualization == 2) return true;
  for (const CudaDevice& c : d.f.driver.devices)
    if (c.name.rfind("GRID ", 0) == 0) return true;
  return false;
}

void check_context(Diagnosis& d) {
  const Facts& f = d.f;
  const int result = f.driver.context_result.value_or(0);
  const std::string said = "creating a context returned " + code_text(result);
  std::optional<int> mode;
  if (!f.driver.devices.empty()) mode = f.driver.devices[0].compute_mode;
  if (mode == 2)  // case 25
    d.error("prohibited_mode", "The card is in compute mode PROHIBITED: no program may use it.",
            {"compute mode 2", said}, {"sudo nvidia-smi -c DEFAULT"});
  else if (mode == 3)  // case 24
    d.add(result == 46 ? Severity::kError : Severity::kNote, "exclusive_mode",
          result == 46 ? "The card is in exclusive mode, and another process has it."
                       : "The card is in exclusive mode: a second process gets error 46 (busy or unavailable).",
          {"compute mode 3 (exclusive process)", result == 46 ? said : "a context could be made"},
          {"nvidia-smi   # which process has it", "sudo nvidia-smi -c DEFAULT"});
  if (result == 2) check_memory(d, said);
  if (result == 0 || d.any_error()) return;
  if (is_vgpu(d) && (result == 46 || result == 801 || result == 102))
    d.error("vgpu", "The virtual GPU admits no CUDA context: its profile is for graphics, or it has no licence.",
            {said},
            {"nvidia-smi -q | grep -iE 'licen|product'",
             "# a compute profile (…C) or a full-size one, and a licence for the guest"});
  else if (result == 214)
    d.error("ecc", error_code(214).cause, {said}, {"nvidia-smi -q -d ECC,ROW_REMAPPER", "sudo reboot"});
  else if (result == 805 || result == 807)
    d.error("mps_unreachable", error_code(805).cause, {said, d.env_text("CUDA_MPS_PIPE_DIRECTORY")},
            {"nvidia-cuda-mps-control -d", "unset CUDA_MPS_PIPE_DIRECTORY   # or without MPS"});
  else
    d.error("context_failed", "The card is found, but no program can start on it.", {said},
            {"nvidia-smi   # which processes use it, how much memory is free",
             "sudo dmesg | grep -iE 'nvrm|xid' | tail -20"});
}

void check_order(Diagnosis& d) {  // case 30
  const Facts& f = d.f;
  std::set<std::string> models;
  Lines cuda, nvml;
  const auto short_id = [](const std::string& pci) {
    return pci.size() > 7 ? pci.substr(pci.size() - 7) : pci;
  };  // 01:00.0
  for (const CudaDevice& c : f.driver.devices) models.insert(c.name), cuda.push_back(short_id(c.pci));
  for (const NvmlDevice& n : f.nvml.devices) nvml.push_back(short_id(n.pci));
  if (models.size() < 2 || f.env("CUDA_DEVICE_ORDER") || f.env("CUDA_VISIBLE_DEVICES")) return;
  if (cuda == nvml) return;
  d.note("device_order", "CUDA numbers the cards by speed, nvidia-smi by bus: card 0 is not the same for both.",
         {"CUDA: " + join(cuda), "nvidia-smi: " + (nvml.empty() ? "unknown" : join(nvml))},
         {"export CUDA_DEVICE_ORDER=PCI_BUS_ID"});
}

}  // namespace

void check_memory(Diagnosis& d, const std::string& said) {
  const Facts& f = d.f;
  if (f.system.address_limit)  // case 83
    d.error("address_space_limit",
            "The process's address space is limited; CUDA reserves far more of it than of memory.",
            {said, fmt::format("ulimit -v is {} kB", *f.system.address_limit)},
            {"ulimit -v unlimited", "# in a batch system: limit memory (RSS, cgroup) instead of virtual memory"});
  else if (f.system.overcommit == 2)
    d.error("host_memory", "The kernel promises no more memory than there is; CUDA reserves far more than it uses.",
            {said, "vm.overcommit_memory is 2"}, {"sudo sysctl vm.overcommit_memory=0"});
  for (const NvmlDevice& n : f.nvml.devices)
    if (n.memory_free_mib && *n.memory_free_mib < 600 && !d.any_error())
      d.error("memory_full", "The card's memory is full: other programs hold it.",
              {said, fmt::format("{}: {} MiB free of {}", n.name, *n.memory_free_mib, n.memory_mib.value_or(0))},
              {"nvidia-smi   # which processes; a list without any: a container's, or one that was not ended right",
               "sudo fuser -v /dev/nvidia*"});
}

void check_cards(Diagnosis& d) {
  const Facts& f = d.f;
  check_mig(d);
  check_mig_access(d);
  check_ecc(d);
  if (!d.works) return;
  check_context(d);
  check_order(d);

  if (const std::string* list = f.env("CUDA_VISIBLE_DEVICES")) {
    const Lines items = list_items(*list, ',');
    bool mig = !items.empty() && items[0].rfind("MIG-", 0) == 0;
    for (const NvmlDevice& n : f.nvml.devices) mig = mig || n.mig_current == 1;
    if (mig && items.size() > 1 && *f.driver.count == 1)
      d.note("mig_one_slice", "A program gets one MIG slice only, the first of CUDA_VISIBLE_DEVICES.",
             {d.env_text("CUDA_VISIBLE_DEVICES"), "1 device is visible"},
             {"# one process for each slice, each with its own CUDA_VISIBLE_DEVICES"});
    else if (static_cast<int64_t>(items.size()) > *f.driver.count)
      d.warning("visible_devices_cut",
                "CUDA_VISIBLE_DEVICES is cut off at its first entry that is no card of this machine.",
                {d.env_text("CUDA_VISIBLE_DEVICES"), fmt::format("{} card(s) are left", *f.driver.count)},
                {"nvidia-smi -L", "unset CUDA_VISIBLE_DEVICES"});
  }
  check_left_out(d);
  for (const CudaDevice& c : f.driver.devices)
    if (c.managed_memory == 0)  // case 26
      d.note("no_managed_memory",
             "This card or virtual GPU has no managed memory: cudaMallocManaged returns 801. The tutorial does not use "
             "it.",
             {c.name + ": attribute 83 is 0"},
             {"# a vGPU: turn on unified memory in the hypervisor (a full-size profile)"});
}

}  // namespace env_check
