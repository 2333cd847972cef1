// Containers, from inside (no card, half a card, a card lost) and on their host (Docker, CDI).
#include <fmt/format.h>

#include <algorithm>

#include "env_check/diagnosis.hpp"
#include "env_check/files.hpp"

namespace env_check {
namespace {

void no_gpu(Diagnosis& d) {  // case 72
  const Facts& f = d.f;
  Lines fix = {"docker run --gpus all …", "# podman, CDI: --device nvidia.com/gpu=all",
               "# Kubernetes: resources: limits: nvidia.com/gpu: 1",
               "# the host needs the driver and nvidia-container-toolkit; do not install a driver in the container"};
  std::string missing = "no /dev/nvidiactl";
  if (f.system.tegra) {
    missing = "no libcuda, or no device file of the Jetson's GPU,";
    fix = {"docker run --runtime nvidia …   # a Jetson's card is given by the runtime, not by --gpus"};
  } else if (f.system.container == "apptainer") {
    fix = {"apptainer exec --nv …"};
  } else if (contains(f.system.container, "lxc")) {
    fix = {"# LXD: lxc config device add <container> gpu gpu; lxc config set <container> nvidia.runtime true",
           "# LXC: bind-mount /dev/nvidia0, nvidiactl, nvidia-uvm and allow their numbers (lxc.cgroup2.devices.allow)"};
  }
  const bool driver = d.node("/dev/nvidiactl") && !f.system.tegra;
  if (driver) missing = "/dev/nvidiactl, but no /dev/nvidia0 or other card,";
  d.error("container_no_gpu",
          driver ? "The container was given the driver, but no GPU." : "The container was started without a GPU.",
          {missing + " in this " + f.system.container + " container", d.env_text("NVIDIA_VISIBLE_DEVICES")}, fix);
}

void check_docker(Diagnosis& d) {  // case 73
  const Facts& f = d.f;
  if (f.containers.docker.empty() || d.gpus.empty() || !f.module.loaded) return;
  const bool snap = starts_with(f.containers.docker, "/snap/");
  if (f.containers.toolkit && f.containers.daemon_nvidia != false && !snap) return;
  Lines fix = {"sudo apt-get install nvidia-container-toolkit   # from NVIDIA's repository",
               "sudo nvidia-ctk runtime configure --runtime=docker", "sudo systemctl restart docker"};
  if (snap) fix.insert(fix.begin(), "sudo snap remove docker   # Docker's own package instead of the snap");
  d.note("docker_without_gpu", "Docker on this machine cannot give a card to a container yet.",
         {"docker: " + f.containers.docker + (snap ? " (the snap package)" : ""),
          f.containers.toolkit ? "nvidia-ctk is there" : "no nvidia-ctk",
          f.containers.daemon_nvidia == false ? "/etc/docker/daemon.json does not name nvidia"
                                              : "/etc/docker/daemon.json: nothing to object to"},
         fix);
}

}  // namespace

void check_container_devices(Diagnosis& d) {
  const Facts& f = d.f;
  if (f.system.tegra) {
    if (f.driver.state == "not_loaded" || f.nodes.empty()) no_gpu(d);
    return;
  }
  const bool lxc = contains(f.system.container, "lxc");
  if ((!d.node("/dev/nvidiactl") || !d.card_node()) && !f.wsl.dxg) return no_gpu(d);
  for (const DeviceNode& n : f.nodes)
    if (n.major && n.expected_major && *n.major != *n.expected_major)  // case 82
      d.error(
          "device_major_changed", "A device node of the container has a number the kernel no longer uses.",
          {fmt::format("{} has major {}, /proc/devices says {}", n.path, *n.major, *n.expected_major)},
          {"# recreate the node (restart the container), and in the host's LXC configuration allow the current number:",
           fmt::format("lxc.cgroup2.devices.allow = c {}:* rwm", *n.expected_major)});
  if (d.any_node_error("EPERM") && !d.has("device_major_changed"))  // case 76
    d.error(
        lxc ? "device_major_changed" : "container_gpu_lost",
        lxc ? "The container's device rules do not admit the card."
            : "The container's device rules do not admit the card: it had it and lost it (systemd rewrites the rules "
              "at "
              "a daemon-reload), or the device files were mounted as plain files.",
        {d.nodes_with("EPERM") + ": opening gives EPERM"},
        lxc ? Lines{"# on the host: lxc.cgroup2.devices.allow for the numbers that `grep nvidia /proc/devices` shows"}
            : Lines{"# start the container again, with --gpus all or --device, not -v /dev/nvidia0; for good, on the "
                    "host:",
                    "sudo nvidia-ctk system create-dev-char-symlinks --create-all",
                    "# or use CDI: docker run --device nvidia.com/gpu=all …"});
  if (!d.node("/dev/nvidia-uvm") && !f.wsl.dxg)
    d.error("uvm_missing", "The container lacks /dev/nvidia-uvm, without which libcuda cannot start.",
            {"/dev/nvidia-uvm does not exist"},
            {"# on the host:", "sudo nvidia-modprobe -u -c 0", "# then start the container again, with --gpus all"});
}

void check_containers(Diagnosis& d) {
  const Facts& f = d.f;
  const Version module(f.module.version);
  const std::string* require = f.env("NVIDIA_REQUIRE_CUDA");
  if (require && !f.system.container.empty() && d.driver.known()) {
    const size_t at = require->find("cuda>=");  // case 75
    const Version needed(at == std::string::npos ? "" : require->substr(at + 6));
    if (needed > d.driver)
      d.add(needed.major() > d.driver.major() ? Severity::kWarning : Severity::kNote, "container_require_cuda",
            "The image asks for a newer driver than the host's.",
            {d.env_text("NVIDIA_REQUIRE_CUDA"), "the driver goes up to CUDA " + d.driver.text()},
            d.install_driver(driver_for_toolkit(needed, f.system.wsl)));
  }
  if (!d.native) return;
  if (!f.containers.cdi_versions.empty() && module.known() &&
      std::none_of(f.containers.cdi_versions.begin(), f.containers.cdi_versions.end(),
                   [&](const std::string& v) { return Version(v) == module; }))
    d.warning("cdi_stale", "The CDI files describe another driver version: containers start with missing libraries.",
              {"CDI: " + join(f.containers.cdi_versions), "kernel module " + f.module.version},
              {"sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"});
  check_docker(d);
}

}  // namespace env_check
