// What gather() makes of this machine and of strange ones.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "env_check/diagnose.hpp"
#include "env_check/gather.hpp"
#include "env_check/report.hpp"
#include "env_check/test_harness.hpp"
#include "env_check/test_support.hpp"

using namespace env_check;
using nlohmann::json;
namespace fs = std::filesystem;

TEST_CASE("env_check gathers this machine quickly and without an error") {
  const auto start = std::chrono::steady_clock::now();
  const Facts f = gather();
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(25));
  CHECK_FALSE(f.system.kernel.empty());
  CHECK_FALSE(f.driver.state.empty());
  CHECK_FALSE(f.nvml.state.empty());
  CHECK(to_json(facts_from_json(to_json(f), "gathered")) == to_json(f));
  CHECK_FALSE(text_report(f, diagnose(f)).empty());
}

TEST_CASE("env_check gathers a made-up machine from its files") {
  TemporaryFolder m;
  m.write("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
  m.write(
      "proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs)\nGCC version: 12\n");
  m.write("proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n");
  m.write("proc/devices", "Character devices:\n195 nvidia\n238 nvidia-uvm\n\nBlock devices:\n");
  m.write("proc/cmdline", "quiet firmware_class.path=/etc/firmware\n");
  m.write("proc/1234/comm", "nv-fabricmanage\n");
  m.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  m.write("sys/bus/pci/devices/0000:01:00.0/device", "0x2335\n");
  m.write("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  m.write("sys/bus/pci/devices/0000:01:00.0/config", std::string(64, '\xff'));
  m.write("sys/bus/pci/devices/0000:01:00.0/resource",
          "0x00000000f6000000 0x00000000f6ffffff 0x0\n0x0000000000000000 0x0 0x0\n");
  m.write("sys/bus/pci/devices/0000:02:00.0/vendor", "0x8086\n");
  m.write("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", std::string("\x06\0\0\0\x01", 5));
  m.write("sys/power/suspend_stats/success", "4\n");
  m.write("lib/modules/6.8.0-45-generic/modules.dep", "kernel/x.ko:\n");
  m.write("lib/modules/6.8.0-44-generic/modules.dep", "updates/dkms/nvidia.ko.zst:\n");
  m.write("etc/os-release", "ID=ubuntu\nVERSION_ID=\"24.04\"\n");
  m.write("etc/cdi/nvidia.yaml", "- hostPath: /usr/lib/libcuda.so.570.86.10\n");
  m.write("var/lib/dpkg/info/libnvidia-compute-535:amd64.list", "");
  m.write("usr/local/nvidia/lib64/libcuda.so.1", "no library");
  m.write("dev/nvidiactl", "");
  fs::create_symlink("/nowhere", m.path / "usr/local/cuda");
  GatherOptions options;
  options.root = m.path.string();
  options.ask_driver = false;
  const Facts f = gather(options);
  CHECK(f.system.kernel == "6.8.0-45-generic");
  CHECK(f.system.distribution == "ubuntu 24.04");
  CHECK(f.system.secure_boot == true);
  CHECK(f.system.suspends == 4);
  CHECK(f.system.fabric_manager);
  CHECK(f.system.firmware_path_missing);
  CHECK(f.module.version == "580.159.04");
  CHECK(f.module.open == true);
  CHECK(f.module.profiling_admin_only == true);
  CHECK_FALSE(f.module.on_disk);
  CHECK(f.module.on_disk_other == std::vector<std::string>{"6.8.0-44-generic"});
  CHECK(f.module.packages == std::vector<std::string>{"libnvidia-compute-535"});
  REQUIRE(f.pci.size() == 1);
  CHECK(f.pci[0].device_id == 0x2335);
  CHECK(f.pci[0].config_dead);
  CHECK(f.pci[0].bar1_unassigned == true);
  CHECK(f.containers.cdi_versions == std::vector<std::string>{"570.86.10"});
  CHECK(f.usr_local_cuda == "dangling");
  REQUIRE(f.nodes.size() == 1);
  CHECK(f.nodes[0].path == "/dev/nvidiactl");
  CHECK(f.driver.state.empty());
}

namespace {
Facts gather_in(const TemporaryFolder& machine) {
  GatherOptions options;
  options.root = machine.path.string();
  options.ask_driver = options.python = false;
  return gather(options);
}
}  // namespace

TEST_CASE("env_check gathers WSL, also with a kernel built at home and a Linux driver in it") {
  TemporaryFolder m;
  m.write("proc/sys/kernel/osrelease", "6.6.87-mine\n");
  m.write("usr/lib/wsl/lib/libcuda.so.1", "x");
  m.write("usr/lib/wsl/lib/libd3d12.so", "x");
  m.write("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.183.01", "x");
  fs::create_symlink("libnvidia-ml.so.535.183.01", m.path / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1");
  m.write("etc/ld.so.conf.d/ld.wsl.conf", "/usr/lib/wsl/lib\n");
  m.write("dev/dxg", "");
  const Facts f = gather_in(m);
  CHECK(f.system.wsl);
  CHECK(f.wsl.dxg);
  CHECK(f.wsl.loader_conf);
  CHECK(f.wsl.libraries == std::vector<std::string>{"libcuda.so.1"});
  if (f.system.container.empty()) {  // a test inside a container cannot look like WSL itself
    const auto findings = diagnose(f);
    CHECK(std::any_of(findings.begin(), findings.end(), [](const Finding& x) { return x.id == "wsl_linux_driver"; }) ==
          !f.driver.state.empty());
  }
}

TEST_CASE("env_check gathers a laptop: Debian's module, prime-select, a blacklist, dkms, firmware, the log") {
  TemporaryFolder m;
  m.write("proc/sys/kernel/osrelease", "6.12.48+deb13-amd64\n");
  m.write("lib/modules/6.12.48+deb13-amd64/updates/dkms/nvidia-current.ko.xz", "");
  m.write("lib/modules/6.12.48+deb13-amd64/updates/dkms/nvidia-current-drm.ko.xz", "");
  m.write("lib/modules/6.1.0-40-amd64/modules.dep", "updates/dkms/nvidia-drm.ko: updates/dkms/nvidia-modeset.ko\n");
  m.write("etc/prime-discrete", "intel\n");
  m.write("lib/modprobe.d/blacklist-nvidia.conf", "# no\nblacklist nvidiafb\n  blacklist   nvidia\n");
  m.write("var/lib/dkms/nvidia/535.183.01/build/make.log", "error");
  m.write("sys/module/nvidia/version", "580.95.05\n");
  m.write("lib/firmware/nvidia/575.64/gsp_ga10x.bin", "");
  m.write("dev/kmsg",
          "4,1,2,-;ACPI: nothing\n4,2,3,-;NVRM: Xid (PCI:0000:01:00): 79, pid=4711, name=python3, GPU has fallen off "
          "the bus.\n6,3,4,-;PM: hibernation: hibernation exit\n");
  m.write("var/lib/dpkg/status",
          "Package: a\nVersion: 1\n\nPackage: nvidia-fabricmanager-535\nStatus: x\nVersion: 535.183.01-1\n\n");
  m.write("proc/cpuinfo", "flags : fpu hypervisor sse\n");
  const Facts f = gather_in(m);
  CHECK(f.module.on_disk);
  CHECK(f.module.on_disk_other.empty());
  CHECK(f.system.prime == "intel");
  CHECK(f.module.blacklisted_in == "/lib/modprobe.d/blacklist-nvidia.conf");
  CHECK(f.module.dkms_log == "/var/lib/dkms/nvidia/535.183.01/build/make.log");
  CHECK(f.module.gsp_firmware == false);
  REQUIRE(f.kernel_log.size() == 2);
  CHECK(f.kernel_log[0] == "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.");
  CHECK(f.system.fabric_manager_version == "535.183.01");
  CHECK(f.system.virtual_machine);
}

TEST_CASE("env_check gathers containers and a Jetson") {
  const auto container = [](const std::string& file, const std::string& text) {
    TemporaryFolder m;
    m.write(file, text);
    return gather_in(m).system.container;
  };
  if (std::getenv("KUBERNETES_SERVICE_HOST")) return CHECK(true);
  CHECK(container(".dockerenv", "") == "docker");
  CHECK(container("run/.containerenv", "") == "podman");
  CHECK(container("run/systemd/container", "lxc\n") == "lxc");
  CHECK(container("run/systemd/container", "wsl\n").empty());
  CHECK(container("proc/1/environ", std::string("A=1\0container=lxc\0", 19)) == "lxc");
  CHECK(container("proc/1/cgroup", "0::/kubepods/besteffort/pod1\n") == "kubernetes");
  CHECK(container("proc/self/mountinfo", "1 2 0:3 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/x\n") ==
        "container");
  CHECK(container("etc/hosts", "").empty());

  TemporaryFolder m;
  m.write("etc/nv_tegra_release", "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic\n");
  m.write("dev/nvhost-gpu", "");
  m.write("dev/nvgpu/igpu0/ctrl", "");
  const Facts f = gather_in(m);
  CHECK(f.system.tegra);
  CHECK(f.system.l4t == "36.4.3");
  CHECK(f.nodes.size() == 2);
}

TEST_CASE("env_check tries the device files themselves: closed ones, dead ones, slices of MIG") {
  TemporaryFolder m;
  m.write("proc/devices", "Character devices:\n195 nvidia\n511 nvidia-caps\n");
  m.write("dev/nvidia0", "");
  m.write("dev/nvidiactl", "");
  m.write("dev/nvidia-caps/nvidia-cap1", "");
  fs::permissions(m.path / "dev/nvidia0", fs::perms::none);
  const Facts f = gather_in(m);
  REQUIRE(f.nodes.size() == 3);
  CHECK(f.nodes[0].path == "/dev/nvidia0");
  CHECK(f.nodes[0].expected_major == 195);
  CHECK(f.nodes[0].error == (geteuid() == 0 ? "" : "EACCES"));
  CHECK(f.nodes[1].error.empty());
  CHECK(f.nodes[2].expected_major == 511);
}

TEST_CASE("env_check: unreadable, absurd and endless files in /proc, /sys and /dev") {
  std::mt19937 random(7);
  const char* names[] = {"proc/sys/kernel/osrelease",
                         "proc/driver/nvidia/version",
                         "proc/driver/nvidia/params",
                         "proc/devices",
                         "proc/cmdline",
                         "proc/1/environ",
                         "proc/1/cgroup",
                         "proc/self/status",
                         "proc/self/mountinfo",
                         "proc/77/comm",
                         "sys/bus/pci/devices/0000:01:00.0/class",
                         "sys/bus/pci/devices/0000:01:00.0/device",
                         "sys/bus/pci/devices/0000:01:00.0/config",
                         "sys/bus/pci/devices/0000:01:00.0/resource",
                         "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
                         "sys/power/suspend_stats/success",
                         "sys/module/nvidia/version",
                         "etc/os-release",
                         "etc/cdi/x.json",
                         "etc/docker/daemon.json",
                         "run/systemd/container",
                         "etc/ld.so.conf.d/x.conf",
                         "usr/local/cuda-13.0/include/crt/host_config.h",
                         "usr/lib/x86_64-linux-gnu/libcuda.so.1"};
  for (int round = 0; round < 12; ++round) {
    TemporaryFolder m;
    m.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    for (const char* name : names) {
      std::string text(std::uniform_int_distribution<size_t>(0, round == 0 ? 200000 : 300)(random), '\0');
      for (char& c : text) c = static_cast<char>(round % 2 ? random() : "0123456789abcdefx .:-=/\n,"[random() % 25]);
      if (round == 3) text = std::string(100000, '9');
      m.write(name, text);
    }
    fs::create_directories(m.path / "proc/88/comm");         // a folder where a file is expected
    CHECK(mkfifo((m.path / "proc/89").c_str(), 0600) == 0);  // a pipe that nobody writes to
    CHECK(mkfifo((m.path / "etc/cdi/pipe.yaml").c_str(), 0600) == 0);
    fs::create_directories(m.path / "dev");
    CHECK(mkfifo((m.path / "dev/nvidia-uvm").c_str(), 0600) == 0);
    fs::create_symlink("self", m.path / "usr/local/self");  // a link to itself
    GatherOptions options;
    options.root = m.path.string();
    options.ask_driver = false;
    const Facts f = gather(options);
    const auto findings = diagnose(f);
    CHECK_FALSE(findings.empty());
    CHECK_FALSE(json_report(f, findings).dump(-1, ' ', true, json::error_handler_t::replace).empty());
  }
}
