// Does libcuda load, answer, and find a card; if not, which part of the driver is at fault. Case numbers are those of
// the fixtures in cases/.
#include <fmt/format.h>

#include "env_check/diagnosis.hpp"

namespace env_check {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14" → 550.54.14; unknown for WSL's libcuda.so.1.1 and for stubs.
Version version_in(const std::string& path) {
  const size_t so = path.rfind(".so.");
  if (so == std::string::npos) return {};
  const Version v(path.substr(so + 4));
  return v.parts.size() >= 2 && v.major() >= 100 ? v : Version();
}

Version library_version(const Facts& f, const std::string& loaded, const std::string& name) {
  if (const Version v = version_in(loaded); v.known()) return v;
  for (const Library& l : f.libraries)
    if (l.name == name && l.where != "unsearched")
      if (const Version v = version_in(l.real); v.known()) return v;
  return {};
}

bool is_compat(const std::string& path) { return contains(path, "/compat/"); }

void check_versions(Diagnosis& d) {
  const Facts& f = d.f;
  const Version module(f.module.version);
  const Version cuda = library_version(f, f.driver.path, "libcuda.so.1");
  const Version nvml = library_version(f, f.nvml.path, "libnvidia-ml.so.1");
  const Lines how = {fmt::format("kernel module {}, libcuda {} ({})", module.text(), cuda.known() ? cuda.text() : "?",
                                 f.driver.path.empty() ? "not loaded" : f.driver.path)};

  const bool compat = is_compat(f.driver.path) || (module.known() && cuda > module && nvml == module);
  if (d.code == 804) {  // case 35
    d.error(
        "compat_unsupported",
        "A forward compatibility libcuda (cuda-compat) is in front, and this card does not allow it: only data-centre "
        "cards, some RTX server cards and Jetson do.",
        {how[0], "cuInit returned " + code_text(804), d.env_text("LD_LIBRARY_PATH")},
        {"# drop the compat folder from LD_LIBRARY_PATH and /etc/ld.so.conf.d, then:", "sudo ldconfig",
         "# and give the host a driver that is new enough, or take an image with an older CUDA"});
    return;
  }
  if (compat && d.code == 803) {
    d.error("compat_older", "The compatibility libcuda in front is not newer than the kernel module.",
            {how[0], code_text(803)},
            {"# drop the compat folder from LD_LIBRARY_PATH and /etc/ld.so.conf.d: the driver itself is newer",
             "sudo ldconfig"});
    return;
  }
  if (compat) {
    if (d.works)
      d.note("compat_active", "Programs run through a forward compatibility libcuda, not the driver's own.", how, {});
    return;
  }

  const bool nvml_says = f.nvml.init_result == 18 || d.code == 803;
  const bool differ = module.known() && ((cuda.known() && cuda != module) || (nvml.known() && nvml != module));
  if (!nvml_says && !differ) return;
  Lines seen = how;
  if (nvml.known()) seen.push_back("libnvidia-ml " + nvml.text());
  if (f.nvml.init_result == 18) seen.push_back("NVML answers 18 (driver/library version mismatch)");
  if (!f.system.container.empty()) {  // case 79
    for (const Library& l : f.libraries)
      if (l.name.rfind("libcuda.so", 0) == 0 && l.where != "unsearched")
        seen.push_back(fmt::format("{} → {} ({} bytes)", l.path, l.real, l.size));
    d.error(
        "image_driver_libraries",
        "The container's image carries driver libraries of its own, and they do not match the host's kernel module.",
        seen,
        {"# in the image: the driver belongs to the host and is mounted at start",
         "apt-get purge 'libnvidia-compute-*' 'nvidia-utils-*' && ldconfig"});
    return;
  }
  d.add(d.works && !nvml_says ? Severity::kWarning : Severity::kError, "driver_library_mismatch",
        "The driver's libraries were upgraded, but the kernel still runs the old module.", seen,
        {"sudo reboot", "# or, after stopping every program that uses the card:",
         "sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia"});
}

void check_wsl(Diagnosis& d) {
  const Facts& f = d.f;
  const bool has_libcuda = [&] {
    for (const std::string& name : f.wsl.libraries)
      if (name.rfind("libcuda", 0) == 0) return true;
    return false;
  }();
  const bool foreign = !f.driver.path.empty() && !contains(f.driver.path, "/usr/lib/wsl/");
  const bool packages = !f.module.packages.empty();
  if (foreign || packages) {  // case 66
    Lines how;
    if (foreign) how.push_back("libcuda.so.1 is " + f.driver.path + ", not the one of /usr/lib/wsl/lib");
    if (packages) how.push_back("installed: " + join(f.module.packages));
    if (!d.works && d.code != 0) how.push_back("cuInit returned " + code_text(d.code));
    d.add(d.works ? Severity::kWarning : Severity::kError, "wsl_linux_driver",
          "A Linux NVIDIA driver is installed inside WSL, where the driver is Windows'.", how,
          {"sudo apt-get purge 'nvidia-driver-*' 'nvidia-utils-*' 'libnvidia-*' cuda cuda-drivers", "sudo ldconfig",
           "# then only the toolkit, from the wsl-ubuntu repository: cuda-toolkit-X-Y"});
  }
  if (d.works || !f.system.container.empty()) return;  // a container in WSL may just not have been given the card
  if (!f.wsl.dxg) {
    d.error("wsl_no_gpu_device", "This WSL has no /dev/dxg: it is WSL 1, or a kernel without Windows' GPU driver.",
            {"/dev/dxg does not exist", "kernel " + f.system.kernel},
            {"# in PowerShell:", "wsl --update", "wsl --set-version <distribution> 2", "wsl --shutdown"});
  } else if (!has_libcuda) {  // case 70
    d.error("wsl_driver_missing",
            "Windows gives WSL a GPU, but no CUDA libraries: its NVIDIA driver is absent or too old.",
            {"/dev/dxg exists, /usr/lib/wsl/lib holds no libcuda"}, d.install_driver(""));
  } else if (f.driver.state == "not_loaded") {  // case 67
    d.error("wsl_loader_path", "The loader does not find WSL's libcuda, although it is there.",
            {"/usr/lib/wsl/lib holds " + join(f.wsl.libraries), "dlopen: " + f.driver.error},
            {"echo /usr/lib/wsl/lib | sudo tee /etc/ld.so.conf.d/ld.wsl.conf", "sudo ldconfig"});
  } else if (f.nvml.init_result == 17 && !foreign) {  // case 69
    d.error("wsl_gpu_blocked",
            "Windows does not let WSL use this card: it runs in TCC mode, or Windows or its WSL kernel is too old.",
            {"NVML answers 17 (GPU access blocked by the operating system)"},
            {"# in PowerShell; a data-centre card needs a driver in WDDM or MCDM mode (nvidia-smi.exe shows it):",
             "wsl --update", "wsl --shutdown"});
  }
}

// libcuda.so.1 could not be loaded, outside WSL.
void check_not_loaded(Diagnosis& d) {
  const Facts& f = d.f;
  const Lines how = {"dlopen: " + f.driver.error};
  if (contains(f.driver.error, "wrong ELF class")) {  // case 88
    Lines seen = how;
    for (const Library& l : f.libraries)
      if (l.name == "libcuda.so.1") seen.push_back(fmt::format("{}: {}-bit {}", l.path, l.elf_bits, l.machine));
    d.error("wrong_elf_class", "The libcuda that is found is for another kind of processor or for 32-bit programs.",
            seen, d.install("libnvidia-compute-<driver branch>:amd64", "nvidia-driver-cuda-libs"));
    return;
  }
  if (contains(f.driver.error, "too short") || contains(f.driver.error, "invalid ELF header")) {
    const std::string file = f.driver.error.substr(0, f.driver.error.find(": "));
    const std::string folder = file.substr(0, file.rfind('/'));
    const std::string* search = f.env("LD_LIBRARY_PATH");
    if (search && contains(":" + *search + ":", ":" + folder + ":"))
      d.error("broken_libcuda", "The file libcuda.so.1 that LD_LIBRARY_PATH leads to is no library.",
              {how[0], d.env_text("LD_LIBRARY_PATH")}, {"unset LD_LIBRARY_PATH", "# or delete " + file});
    else if (!f.system.container.empty())
      d.error("image_driver_libraries", "The container's image carries a libcuda.so.1 that is no library.", how,
              {"# in the image: delete the empty libcuda files, or build it without a mounted driver"});
    else
      d.error("broken_libcuda", "The file libcuda.so.1 that is found is no library.", how, d.install_driver(""));
    return;
  }
  for (const Library& l : f.libraries)
    if (l.where == "unsearched" && l.name.rfind("libcuda.so", 0) == 0 && l.size > 0 && l.name != "libcuda.so" &&
        !is_compat(l.path) && !contains(l.path, "/stubs/")) {  // case 85
      const std::string folder = l.path.substr(0, l.path.rfind('/'));
      d.error("driver_folder_unusual", "The driver's libraries lie in a folder that no program looks into.",
              {how[0], "found: " + l.path},
              {"export LD_LIBRARY_PATH=" + folder + "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}", "# or for everybody:",
               "echo " + folder + " | sudo tee /etc/ld.so.conf.d/nvidia-driver.conf && sudo ldconfig"});
      return;
    }
  if (!f.system.container.empty() && !f.system.tegra) {
    const bool nodes = d.node("/dev/nvidiactl") || f.wsl.dxg;
    if (nodes)  // case 74
      d.error("container_no_compute", "The container has the card, but not the driver's compute libraries.",
              {how[0], "/dev/nvidiactl exists", "libnvidia-ml: " + (f.nvml.path.empty() ? f.nvml.state : f.nvml.path),
               d.env_text("NVIDIA_DRIVER_CAPABILITIES")},
              {"docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …",
               "# compose: capabilities: [gpu, compute, utility]"});
    return;
  }
  if (!d.gpus.empty() || f.system.tegra || f.module.loaded)  // case 1
    d.error("no_driver",
            "The machine has an NVIDIA card, but no NVIDIA driver library. CUDA programs call this error 35, \"driver "
            "insufficient\".",
            how, d.install_driver(""));
}

void check_hidden(Diagnosis& d) {  // cases 28, 29
  const Facts& f = d.f;
  const std::string* list = f.env("CUDA_VISIBLE_DEVICES");
  if (!list || f.driver.state != "answered" || (d.code != 100 && d.code != 101)) return;
  const bool proven = f.driver.unmasked_count.value_or(0) > 0;
  if (!proven && (f.driver.unmasked_count || !d.nvml_works || f.nvml.devices.empty())) return;
  Lines how = {d.env_text("CUDA_VISIBLE_DEVICES") + ": " + code_text(d.code)};
  if (proven) how.push_back(fmt::format("without it: {} card(s)", *f.driver.unmasked_count));
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

void check_container_devices(Diagnosis& d) {
  const Facts& f = d.f;
  if (f.system.tegra) return;
  const bool lxc = contains(f.system.container, "lxc");
  if (!d.node("/dev/nvidiactl") && !f.wsl.dxg) {  // case 72
    d.error("container_no_gpu", "The container was started without a GPU.",
            {"no /dev/nvidiactl in this " + f.system.container + " container", d.env_text("NVIDIA_VISIBLE_DEVICES")},
            {"docker run --gpus all …", "# podman, CDI: --device nvidia.com/gpu=all",
             "# Kubernetes: resources: limits: nvidia.com/gpu: 1",
             "# the host needs the driver and nvidia-container-toolkit; do not install a driver in the container"});
    return;
  }
  for (const DeviceNode& n : f.nodes)
    if (n.major && n.expected_major && *n.major != *n.expected_major)  // case 82
      d.error(
          "device_major_changed", "A device node of the container has a number the kernel no longer uses.",
          {fmt::format("{} has major {}, /proc/devices says {}", n.path, *n.major, *n.expected_major)},
          {"# recreate the node (restart the container), and in the host's LXC configuration allow the current number:",
           fmt::format("lxc.cgroup2.devices.allow = c {}:* rwm", *n.expected_major)});
  if (d.any_node_error("EPERM") && !d.has("device_major_changed"))
    d.error(
        lxc ? "device_major_changed" : "container_gpu_lost",
        lxc ? "The container's device rules do not admit the card."
            : "The container had the card and lost it: systemd rewrote its device rules (a daemon-reload does).",
        {"the nodes /dev/nvidia* exist, opening them gives EPERM"},
        lxc ? Lines{"# on the host: lxc.cgroup2.devices.allow for the numbers that `grep nvidia /proc/devices` shows"}
            : Lines{"# start the container again; for good, on the host:",
                    "sudo nvidia-ctk system create-dev-char-symlinks --create-all",
                    "# or use CDI: docker run --device nvidia.com/gpu=all …"});
  if (!d.node("/dev/nvidia-uvm") && !f.wsl.dxg)
    d.error("uvm_missing", "The container lacks /dev/nvidia-uvm, without which libcuda cannot start.",
            {"/dev/nvidia-uvm does not exist"},
            {"# on the host:", "sudo nvidia-modprobe -u -c 0", "# then start the container again, with --gpus all"});
}

// What only the number says, when nothing seen so far explains it.
void check_code(Diagnosis& d) {
  const Facts& f = d.f;
  const std::string said = "cuInit returned " + code_text(d.code);
  if (d.code == 2 && f.system.address_limit)  // case 83
    d.error("address_space_limit",
            "The process's address space is limited; CUDA reserves far more of it than of memory.",
            {said, fmt::format("ulimit -v is {} kB", *f.system.address_limit)},
            {"ulimit -v unlimited", "# in a batch system: limit memory (RSS, cgroup) instead of virtual memory"});
  if (d.code == 802)  // case 22
    d.error("fabric_manager",
            "The NVSwitch fabric is not up: the fabric manager does not run, or not in the driver's version.",
            {said, f.system.fabric_manager ? "nv-fabricmanager runs" : "no process nv-fabricmanager"},
            {"# on the host, the package of exactly the driver's version:",
             fmt::format(
                 "sudo apt-get install nvidia-fabricmanager-{}",
                 Version(driver_version(f)).known() ? std::to_string(Version(driver_version(f)).major()) : "<branch>"),
             "sudo systemctl enable --now nvidia-fabricmanager"});
  if (d.code == 805 || d.code == 807)  // case 34
    d.error(
        "mps_unreachable", "The program is told to use MPS, but no MPS daemon answers.",
        {said, d.env_text("CUDA_MPS_PIPE_DIRECTORY"),
         f.system.mps_daemon ? "the daemon runs" : "no process nvidia-cuda-mps-control"},
        {"nvidia-cuda-mps-control -d", "# or without MPS:", "unset CUDA_MPS_PIPE_DIRECTORY; rm -rf /tmp/nvidia-mps"});
  if (d.code == 214)
    d.error("ecc", "The card reports an uncorrectable memory error.", {said},
            {"nvidia-smi -q -d ECC,ROW_REMAPPER",
             "sudo reboot   # applies a pending row remap; if the error returns, replace the card"});
  if (d.code == 102)
    d.error("vgpu", "The virtual GPU has no licence.", {said},
            {"sudo systemctl restart nvidia-gridd", "nvidia-smi -q | grep -i licen"});
  if (d.code == 999 && !d.any_error()) {
    if (f.system.suspends > 0)  // case 15
      d.error("stale_after_suspend", "CUDA broke at a suspend: the driver's nvidia_uvm did not wake up.",
              {said, fmt::format("{} suspend(s) since boot", f.system.suspends)},
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
        "stub_libcuda", "The libcuda that is loaded is the toolkit's stub: a file to link against, which never runs.",
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
    const bool no_library =
        d.has("container_no_compute") || d.has("image_driver_libraries") || d.has("driver_folder_unusual");
    if (!no_library && !d.has("compat_unsupported") && !d.has("compat_older")) check_container_devices(d);
  }
  if (d.any_node_error("EACCES")) {  // case 18
    Lines how;
    for (const DeviceNode& n : f.nodes)
      if (n.error == "EACCES") how.push_back(fmt::format("{}: mode {:04o}, not for this user", n.path, n.mode));
    d.error("device_nodes_closed", "The device files of the card are closed to this user.", how,
            {"sudo usermod -aG video,render \"$USER\"   # then log in again",
             "# or for everybody: options nvidia NVreg_DeviceFileMode=0666"});
  }
  if (d.native) check_hardware(d);
  if (p.state == "answered") check_code(d);
}

void check_unexplained(Diagnosis& d) {
  const Facts& f = d.f;
  if (d.works || !d.asked || d.any_error()) return;
  if (d.native && d.gpus.empty() && !f.system.tegra && !f.module.loaded) {
    d.error("no_gpu",
            "No NVIDIA card is visible on this machine. The tutorial's CPU executor works without one: make lab01.",
            {"no PCI device of NVIDIA's, no kernel module",
             f.driver.state == "not_loaded" ? "dlopen: " + f.driver.error : "cuInit returned " + code_text(d.code)},
            {"lspci -d 10de:   # empty: no card, or the virtual machine was not given one"});
    return;
  }
  Lines how = {"libcuda: " + f.driver.state, "cuInit: " + (d.code ? code_text(d.code) : "no answer")};
  for (const std::string& line : f.driver.log) how.push_back("driver log: " + line);
  d.error("cuda_init_failed", "CUDA does not start, and nothing seen here says why.", how,
          {"sudo dmesg | grep -iE 'nvrm|xid' | tail -20", "CUDA_LOG_FILE=stderr env_check --verbose",
           "env_check --save-facts facts.json   # and attach it to a report"});
}

}  // namespace env_check
