// Does libcuda load, answer, and find a card; if not, which part of the driver is at fault. Case numbers are those of
// the fixtures in cases/.
#include <fmt/format.h>

#include "env_check/diagnosis.hpp"
#include "env_check/files.hpp"

namespace env_check {
namespace {

void check_hidden(Diagnosis& d) {  // cases 28, 29
  const Facts& f = d.f;
  const std::string* list = f.env("CUDA_VISIBLE_DEVICES");
  if (!list || f.driver.state != "answered" || (d.code != 100 && d.code != 101)) return;
  const bool proven = f.driver.unmasked_count.value_or(0) > 0;
  if (!proven && (f.driver.unmasked_count || !d.nvml_works || f.nvml.devices.empty())) return;
  Lines how = {d.env_text("CUDA_VISIBLE_DEVICES") + ": " + code_text(d.code)};
  if (proven) how.push_back(fmt::format("without it: {} card(s)", *f.driver.unmasked_count));
  if (contains(*list, "NoDevFiles")) {
    how.push_back("Slurm sets this for a job that asked for no card");
    d.error("visible_devices_hides", "CUDA_VISIBLE_DEVICES hides every card.", how,
            {"srun --gres=gpu:1 …   # sbatch: #SBATCH --gres=gpu:1"});
    return;
  }
  bool uuids = false;
  for (const std::string& item : list_items(*list, ','))
    if (item.rfind("GPU-", 0) == 0 || item.rfind("MIG-", 0) == 0) {
      uuids = true;
      bool known = false;
      for (const NvmlDevice& device : f.nvml.devices) known = known || device.uuid.rfind(item, 0) == 0;
      if (!known && !f.nvml.devices.empty()) how.push_back("no card here has the UUID " + item);
    }
  if (uuids)
    d.error("visible_devices_uuid", "CUDA_VISIBLE_DEVICES names a card or MIG slice that is not on this machine.", how,
            {"nvidia-smi -L   # the UUIDs of this machine", "export CUDA_VISIBLE_DEVICES=0"});
  else
    d.error("visible_devices_hides", "CUDA_VISIBLE_DEVICES hides every card.", how,
            {"unset CUDA_VISIBLE_DEVICES", "# or valid numbers, each once: export CUDA_VISIBLE_DEVICES=0"});
}

// Cases 18, 82, and a batch system's or a unit's device rules.
void check_node_rights(Diagnosis& d) {
  const Facts& f = d.f;
  if (d.any_node_error("EACCES")) {
    Lines how;
    for (const DeviceNode& n : f.nodes)
      if (n.error == "EACCES" && !starts_with(n.path, "/dev/nvidia-caps/"))
        how.push_back(fmt::format("{}: mode {:04o}, not for this user", n.path, n.mode));
    d.error("device_nodes_closed", "The device files of the card are closed to this user.", how,
            {"sudo usermod -aG video,render \"$USER\"   # then log in again",
             "# or for everybody: options nvidia NVreg_DeviceFileMode=0666",
             "# a systemd unit: SupplementaryGroups=video render"});
  }
  if (!d.native) return;
  if (const std::string denied = d.nodes_with("EPERM"); !denied.empty()) {
    Lines fix = {"systemctl show <unit> -p DeviceAllow -p PrivateDevices   # allow: DeviceAllow=/dev/nvidia0 rw …"};
    if (f.system.service == "slurm") fix = {"srun --gres=gpu:1 …   # a Slurm job sees only the cards it asked for"};
    d.error("device_denied", "The system's device rules keep this process from the card.",
            {denied + ": opening gives EPERM although the file's mode allows it",
             "started by: " + (f.system.service.empty() ? "unknown" : f.system.service)},
            fix);
  }
  for (const char* error : {"ENXIO", "ENODEV", "EIO"})
    if (const std::string dead = d.nodes_with(error); !dead.empty() && f.module.loaded)
      d.error("device_node_dead", "A device file is there, but no driver answers behind it.",
              {dead + ": opening gives " + error},
              {"sudo modprobe nvidia_uvm", "sudo nvidia-modprobe -c 0 -u",
               "sudo dmesg | grep -iE 'nvrm|nvidia' | tail -20   # if that does not help"});
}

void check_fabric(Diagnosis& d, const std::string& said) {
  const Facts& f = d.f;
  const std::string version = driver_version(f), manager = f.system.fabric_manager_version;
  Lines how = {said, f.system.fabric_manager ? "nv-fabricmanager runs" : "no process nv-fabricmanager"};
  if (!manager.empty()) how.push_back("fabric manager " + manager + ", driver " + version);
  for (const NvmlDevice& n : f.nvml.devices)
    if (n.fabric_state && *n.fabric_state != 0 && how.size() < 4)
      how.push_back(fmt::format("{}: fabric state {} (3 is completed)", n.name, *n.fabric_state));
  d.error("fabric_manager", error_code(802).cause, how,
          {"# on the host, the fabric manager of exactly the driver's version:",
           fmt::format("sudo apt-get install nvidia-fabricmanager-{}",
                       Version(version).known() ? std::to_string(Version(version).major()) : "<branch>"),
           "sudo systemctl enable --now nvidia-fabricmanager", "# B200 and later also: nvlsm, and the module ib_umad",
           "nvidia-smi conf-compute -grs   # \"not ready\": confidential mode; sudo nvidia-smi conf-compute -srs 1"});
}

// What only the number says, when nothing seen so far explains it.
void check_code(Diagnosis& d) {
  const Facts& f = d.f;
  const std::string said = "cuInit returned " + code_text(d.code);
  if (d.code == 2) check_memory(d, said);
  if (d.code == 802) check_fabric(d, said);  // case 22
  if (d.code == 805 || d.code == 807)        // case 34
    d.error(
        "mps_unreachable", error_code(805).cause,
        {said, d.env_text("CUDA_MPS_PIPE_DIRECTORY"),
         f.system.mps_daemon ? "the daemon runs" : "no process nvidia-cuda-mps-control"},
        {"nvidia-cuda-mps-control -d", "# or without MPS:", "unset CUDA_MPS_PIPE_DIRECTORY; rm -rf /tmp/nvidia-mps"});
  if (d.code == 214)
    d.error("ecc", error_code(214).cause, {said},
            {"nvidia-smi -q -d ECC,ROW_REMAPPER",
             "sudo reboot   # applies a pending row remap; if the error returns, replace the card"});
  if (d.code == 102)
    d.error("vgpu", error_code(102).cause, {said},
            {"sudo systemctl restart nvidia-gridd", "nvidia-smi -q | grep -i licen"});
  if (d.code == 304)
    d.error("operating_system_call", error_code(304).cause,
            {said, f.system.sandbox.empty() ? "no sandbox seen" : "sandbox: " + f.system.sandbox,
             d.nodes_with("EPERM").empty() ? "no device file refuses" : d.nodes_with("EPERM") + " refuse"},
            {"ulimit -a | grep -E 'locked|open files'   # raise with: ulimit -l unlimited -n 65536",
             "strace -f -o trace.txt env_check; grep -E 'EPERM|EACCES|ENOSYS' trace.txt   # which call it was"});
  if (d.code == 999 && !d.any_error()) {
    const std::string hibernated = log_line(f, "PM: hibernation");
    if (f.system.suspends > 0 || !hibernated.empty())  // case 15
      d.error("stale_after_suspend", "CUDA broke at a suspend: the driver's nvidia_uvm did not wake up right.",
              {said, f.system.suspends > 0 ? fmt::format("{} suspend(s) since boot", f.system.suspends) : hibernated},
              {"# after stopping every program that uses the card (also containers, nvidia-persistenced):",
               "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm",
               "# for good: options nvidia NVreg_PreserveVideoMemoryAllocations=1, and",
               "sudo systemctl enable nvidia-suspend nvidia-resume"});
    else if (d.native && !f.module.uvm && f.module.loaded)
      d.error("uvm_missing", "The kernel module nvidia_uvm is not loaded.",
              {said, "/sys/module/nvidia_uvm does not exist"},
              {"sudo modprobe nvidia_uvm", "sudo nvidia-modprobe -u -c 0"});
  }
}

}  // namespace

void check_driver(Diagnosis& d) {
  const Facts& f = d.f;
  const DriverProbe& p = f.driver;
  if (!d.asked) {
    d.error("driver_not_asked", "Nothing is known about the driver: these facts hold no answer of libcuda.",
            {"driver.state is empty"}, {"env_check --save-facts facts.json   # on the machine in question"});
    return;
  }
  if (p.state == "timeout")
    d.error("driver_hangs",
            "The driver does not answer: it hung while " +
                (p.last_step.empty() ? "starting" : "in step \"" + p.last_step + "\"") + ".",
            {"libcuda was stopped after its time limit"},
            {"sudo dmesg | grep -iE 'nvrm|xid' | tail -20", "sudo reboot"});
  if (p.state == "crashed")
    d.error("driver_crashes", "libcuda crashes in step \"" + p.last_step + "\".",
            {"library: " + p.path, d.env_text("LD_PRELOAD")},
            {"env -u LD_PRELOAD env_check", "sudo dmesg | grep -iE 'nvrm|xid|segfault' | tail -20"});
  if (d.code == 34 || (contains(p.path, "/stubs/") && !d.works)) {  // case 31
    d.error(
        "stub_libcuda", error_code(34).cause,
        {"loaded: " + p.path, d.code == 34 ? "it answers " + code_text(34) : "its folder is named stubs",
         d.env_text("LD_LIBRARY_PATH")},
        {"# take */stubs out of LD_LIBRARY_PATH and /etc/ld.so.conf.d, delete a home-made libcuda.so.1 there, then:",
         "sudo ldconfig"});
    return;
  }
  check_versions(d);
  if (f.system.wsl) check_wsl(d);
  check_hidden(d);
  if (d.works || d.has("visible_devices_hides") || d.has("visible_devices_uuid")) return;

  if (p.state == "not_loaded" && (!f.system.wsl || !f.system.container.empty())) check_not_loaded(d);
  if (!f.system.container.empty() && p.state != "timeout") {
    if (!d.any_error()) check_container_devices(d);
  }
  check_node_rights(d);
  if (d.native) check_hardware(d);
  check_log(d);
  if (p.state == "answered") check_code(d);
}

void check_unexplained(Diagnosis& d) {
  const Facts& f = d.f;
  if (d.works || !d.asked || d.any_error()) return;
  if (d.native && d.gpus.empty() && !f.system.tegra && !f.module.loaded) {
    if (f.system.prime == "intel" || f.system.prime == "off") {
      d.error("gpu_switched_off", "This laptop's NVIDIA card is switched off.",
              {"no PCI device of NVIDIA's", "prime-select or bbswitch: " + f.system.prime},
              {"sudo prime-select on-demand   # or: echo ON | sudo tee /proc/acpi/bbswitch", "sudo reboot"});
      return;
    }
    Lines how = {f.system.pci_functions
                     ? fmt::format("none of {} PCI devices is NVIDIA's, no kernel module", *f.system.pci_functions)
                     : "no PCI device can be listed in /sys/bus/pci, no kernel module",
                 f.driver.state == "not_loaded" ? "dlopen: " + f.driver.error : "cuInit returned " + code_text(d.code)};
    if (f.system.virtual_machine)
      how.push_back("this is a virtual machine: it sees only a card that is passed through");
    d.error("no_gpu",
            "No NVIDIA card is visible on this machine. The tutorial's CPU executor works without one: make lab01.",
            how, {"lspci -d 10de:   # empty: no card, or the virtual machine was not given one"});
    return;
  }
  Lines how = {"libcuda: " + f.driver.state, "cuInit: " + (d.code ? code_text(d.code) : "no answer")};
  for (const std::string& line : f.driver.log) how.push_back("driver log: " + line);
  d.error("cuda_init_failed", "CUDA does not start, and nothing seen here says why.", how,
          {"sudo dmesg | grep -iE 'nvrm|xid' | tail -20", "CUDA_LOG_FILE=stderr env_check --verbose",
           "env_check --save-facts facts.json   # and attach it to a report"});
}

}  // namespace env_check
