// The card, its kernel module and its device files, on a machine (not in a container, not in WSL) where libcuda found no
// card: who owns the card, is there a module for this kernel, may it be loaded, does it drive this card.
#include <fmt/format.h>

#include <algorithm>

#include "env_check/diagnosis.hpp"

namespace env_check {
namespace {

void check_owner(Diagnosis& d, const PciDevice& p) {
  const std::string card = fmt::format("{} (10de:{:04x})", p.bdf, p.device_id);
  if (p.config_dead)  // case 19
    d.error("gpu_off_bus", "The card has fallen off the bus: a hardware, power or heat problem, no version problem.",
            {card + ": its configuration space reads all ones"},
            {"sudo dmesg | grep -iE 'fallen off|xid'",
             "# switch the machine off and on; check power cables, seating, temperature"});
  if (p.driver == "nouveau" || p.driver == "nova_core")  // case 8
    d.error(
        "nouveau", "The free driver " + p.driver + " owns the card, so NVIDIA's cannot take it.",
        {card + ": driver " + p.driver, d.f.module.loaded ? "nvidia is loaded too" : "nvidia is not loaded"},
        {fmt::format("printf 'blacklist {0}\\noptions {0} modeset=0\\n' | sudo tee /etc/modprobe.d/blacklist-{0}.conf",
                     p.driver),
         "sudo update-initramfs -u || sudo dracut --force", "sudo reboot"});
  if (p.driver == "vfio-pci")  // case 10
    d.error(
        "vfio", "The card is reserved for a virtual machine.", {card + ": driver vfio-pci"},
        {"grep -rn vfio-pci /etc/modprobe.d /proc/cmdline   # remove its id there to use the card on the host, then:",
         "sudo update-initramfs -u || sudo dracut --force", "sudo reboot"});
}

void check_module_absent(Diagnosis& d) {
  const Facts& f = d.f;
  const Module& m = f.module;
  if (!m.blacklisted_in.empty() && (m.on_disk || m.dkms_source)) {
    Lines how = {"nvidia is blacklisted in " + m.blacklisted_in};
    if (!f.system.prime.empty()) how.push_back("prime-select: " + f.system.prime);
    d.error("module_blacklisted", "This machine is told not to load the nvidia module.", how,
            {f.system.prime.empty()
                 ? "grep -rn nvidia /etc/modprobe.d /lib/modprobe.d /proc/cmdline   # take the line out, then:"
                 : "sudo prime-select on-demand   # or nvidia; then:",
             "sudo update-initramfs -u || sudo dracut --force", "sudo reboot"});
  } else if (m.on_disk && f.system.secure_boot == true) {  // case 7
    const std::string said = log_line(f, "module with unavailable key");
    Lines how = {"Secure Boot is on", "nvidia.ko exists for " + f.system.kernel + ", but is not loaded"};
    if (!said.empty()) how.push_back("kernel's log: " + said);
    d.error("secure_boot",
            said.empty() ? "The nvidia module is not loaded, and Secure Boot is on: most likely it refuses the module, "
                           "because the key that signed it is not enrolled."
                         : "Secure Boot refuses the nvidia module: the key that signed it is not enrolled.",
            how,
            {"sudo modprobe nvidia; sudo dmesg | tail -3   # \"Key was rejected\" confirms it",
             "sudo mokutil --import /var/lib/shim-signed/mok/MOK.der   # or /var/lib/dkms/mok.pub",
             "sudo reboot   # and choose Enroll MOK",
             "# or use the distribution's signed modules, or turn Secure Boot off"});
  } else if (m.on_disk) {
    d.error("module_not_loaded", "The nvidia module exists for this kernel, but is not loaded.",
            {"nvidia.ko exists for " + f.system.kernel, "/sys/module/nvidia does not exist"},
            {"sudo modprobe nvidia", "sudo dmesg | grep -iE 'nvrm|nvidia' | tail -20   # says why, if that fails"});
  } else if (!m.on_disk_other.empty() || m.dkms_source) {  // case 6
    Lines how = {"no nvidia.ko for the running kernel " + f.system.kernel};
    if (!m.on_disk_other.empty()) how.push_back("one exists for " + join(m.on_disk_other));
    if (m.dkms_source) how.push_back("the driver's source is in /usr/src");
    if (!m.dkms_log.empty()) how.push_back("a build left its log: " + m.dkms_log);
    if (m.kernel_headers == false) how.push_back("the headers of the running kernel are not installed");
    Lines fix = d.install("linux-headers-$(uname -r)", "kernel-devel-$(uname -r)");
    fix.push_back("sudo dkms autoinstall && sudo modprobe nvidia");
    if (!m.dkms_log.empty())
      fix.push_back("tail -40 " + m.dkms_log + "   # if that fails: a driver too old for this kernel does not compile");
    fix.push_back("# or boot the kernel that has the module");
    d.error("module_not_built", "The kernel was upgraded, and no nvidia module was built for it.", how, fix);
  } else if (f.driver.state == "answered") {
    d.error("module_missing", "The driver's libraries are installed, its kernel module is not.",
            {"no nvidia.ko for " + f.system.kernel, "libcuda: " + f.driver.path}, d.install_driver(""));
  }
}

void check_module_and_card(Diagnosis& d, const PciDevice& p) {
  const Facts& f = d.f;
  const Version version(f.module.version);
  const auto arch = arch_of_pci(p.device_id);
  const std::string card =
      fmt::format("{} (10de:{:04x}{})", p.bdf, p.device_id, arch ? ", " + cards_of_arch(*arch) : "");
  if (arch && version.known() && !p.in_proc) {
    const Version needed(driver_for_toolkit(first_nvcc_for(*arch), false));
    const std::string runs = "driver " + version.text();
    if (needed.known() && version.major() < needed.major()) {  // case 13
      d.error("card_newer_than_driver", "The card is newer than the driver.",
              {card, runs, fmt::format("first for this card: {}", needed.major())},
              d.install_driver(std::to_string(needed.major())));
      return;
    }
    if (const int last = last_driver_for(*arch); last > 0 && version.major() > last) {
      d.error("card_dropped_by_driver", "The driver no longer supports this old card.", {card, runs},
              {fmt::format("# the last driver branch for it is {}:", last),
               fmt::format("sudo apt-get install nvidia-driver-{}", last), "sudo reboot"});
      return;
    }
  }
  if (arch && *arch >= 100 && f.module.open == false)  // case 11
    d.error("blackwell_closed_module",
            "Blackwell cards need the open kernel modules; the proprietary ones are installed.",
            {card, "/proc/driver/nvidia/version does not say \"Open Kernel Module\""},
            {fmt::format("sudo apt-get install nvidia-driver-{}-open",
                         version.known() ? std::to_string(version.major()) : "<branch>"),
             "sudo reboot"});
  if (arch && *arch < 75 && f.module.open == true)
    d.error("old_card_open_module",
            "The open kernel modules drive Turing and newer; this card needs the proprietary ones.", {card},
            {fmt::format("sudo apt-get install nvidia-driver-{}",
                         version.known() ? std::to_string(version.major()) : "<branch>"),
             "sudo reboot"});
  if (f.module.gsp_firmware == false && f.module.open == true && !d.any_error())
    d.error("gsp_firmware_missing",
            "The card's firmware is not installed in the module's version, and the open modules cannot start a card "
            "without it.",
            {card, "no gsp_*.bin in /lib/firmware/nvidia/" + f.module.version},
            d.install("nvidia-firmware-" + std::to_string(version.major()), "nvidia-driver   # holds the firmware"));
  if (p.bar1_unassigned == true && !d.any_error())  // case 17
    d.error("bar_unassigned", "The BIOS gave the card no address range for its memory.",
            {card + ": BAR 1 has no address"},
            {"# in the BIOS: enable Above 4G Decoding and Resizable BAR, and update it"});
}

void check_nodes(Diagnosis& d) {
  if (d.f.system.tegra) return;
  Lines missing;
  if (!d.node("/dev/nvidiactl")) missing.push_back("/dev/nvidiactl");
  if (!d.card_node()) missing.push_back("/dev/nvidia0");
  if (!missing.empty())
    d.error("device_nodes_missing", "The nvidia module is loaded, but its device files do not exist.",
            {"missing: " + join(missing)},
            {"sudo nvidia-modprobe -c 0 -u", "# or run nvidia-smi once as root",
             "# inside a systemd unit: PrivateDevices=no, and DeviceAllow= for /dev/nvidia*"});
  else if (!d.node("/dev/nvidia-uvm"))
    d.error("uvm_missing",
            "/dev/nvidia-uvm does not exist, without which libcuda cannot start (nvidia-smi does not need it).",
            {"/dev/nvidia-uvm does not exist", d.f.module.uvm ? "nvidia_uvm is loaded" : "nvidia_uvm is not loaded"},
            {"sudo modprobe nvidia_uvm", "sudo nvidia-modprobe -c 0 -u"});
}

}  // namespace

// CUDA works, but not on every card: what keeps the others out is the same as on a machine where none works.
void check_left_out(Diagnosis& d) {
  if (!d.native || d.f.env("CUDA_VISIBLE_DEVICES")) return;
  const bool listed = std::any_of(d.gpus.begin(), d.gpus.end(), [](const PciDevice& p) { return p.in_proc; });
  for (const PciDevice& p : d.gpus) {
    const bool other_driver = !p.driver.empty() && p.driver != "nvidia";
    if (!p.config_dead && (p.in_proc || !listed || other_driver)) {
      if (other_driver)
        d.note("card_not_for_cuda", "One more NVIDIA card is in this machine, which another driver owns.",
               {p.bdf + ": driver " + p.driver}, {});
      continue;
    }
    Diagnosis alone(d.f);
    check_owner(alone, p);
    if (!p.config_dead) check_module_and_card(alone, p);
    for (const Finding& x : alone.found) d.warning(x.id, x.what, x.how, x.fix);
    if (alone.found.empty())
      d.note("card_left_out", "One more NVIDIA card is in this machine, which the driver has not started.",
             {p.bdf + ": not in /proc/driver/nvidia/gpus"}, {"sudo dmesg | grep -iE 'nvrm|nvidia' | tail -20"});
  }
}

void check_hardware(Diagnosis& d) {
  const Facts& f = d.f;
  if (f.system.tegra && f.system.firmware_path_missing)  // case 56
    d.error("firmware_path", "The kernel is told to load GPU firmware from a folder that does not exist.",
            {"firmware_class.path=" + f.system.firmware_path},
            {"sudo mkdir -p " + f.system.firmware_path + "   # and copy /lib/firmware into it", "sudo reboot"});
  for (const PciDevice& p : d.gpus) check_owner(d, p);
  const bool owned = d.has("nouveau") || d.has("vfio") || d.has("gpu_off_bus");
  if (!f.module.loaded) {
    if (!owned && !d.gpus.empty()) check_module_absent(d);
    return;
  }
  if (f.nvml.init_result == 15)
    d.error("gpu_off_bus", "The driver has lost the card.", {"NVML answers 15 (GPU is lost)"},
            {"sudo dmesg | grep -iE 'fallen off|xid'", "sudo reboot"});
  check_log(d);
  if (owned || (d.any_error() && !d.has("adapter_init_failed"))) return;
  for (const PciDevice& p : d.gpus) check_module_and_card(d, p);
  if (!d.any_error()) check_nodes(d);
}

}  // namespace env_check
