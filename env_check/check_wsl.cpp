// WSL: the driver is Windows', and lies in /usr/lib/wsl/lib.
#include "env_check/diagnosis.hpp"
#include "env_check/files.hpp"

namespace env_check {

void check_wsl(Diagnosis& d) {
  const Facts& f = d.f;
  const bool has_libcuda = [&] {
    for (const std::string& name : f.wsl.libraries)
      if (name.rfind("libcuda", 0) == 0) return true;
    return false;
  }();
  // What comes from Windows lies in /usr/lib/wsl; a container in WSL gets it mounted elsewhere.
  bool foreign = f.system.container.empty() && !f.driver.path.empty() && !contains(f.driver.path, "/usr/lib/wsl/");
  Lines files;
  for (const Library& l : f.libraries)
    if (f.system.container.empty() && (l.where == "cache" || l.where == "default") &&
        (l.name == "libcuda.so.1" || l.name == "libnvidia-ml.so.1") && !contains(l.real, "/usr/lib/wsl/") &&
        Version(l.version).major() >= 100)
      files.push_back(l.path + " → " + l.real);
  foreign = foreign || !files.empty();
  const bool packages = f.system.container.empty() && !f.module.packages.empty();
  if (foreign || packages) {  // case 66
    Lines how;
    if (foreign && files.empty())
      how.push_back("libcuda.so.1 is " + f.driver.path + ", not the one of /usr/lib/wsl/lib");
    for (const std::string& file : files) how.push_back(file);
    if (packages) how.push_back("installed: " + join(f.module.packages));
    if (!d.works && d.code != 0) how.push_back("cuInit returned " + code_text(d.code));
    d.add(d.works ? Severity::kWarning : Severity::kError, "wsl_linux_driver",
          "A Linux NVIDIA driver is installed inside WSL, where the driver is Windows'.", how,
          {"sudo apt-get purge 'nvidia-driver-*' 'nvidia-utils-*' 'libnvidia-*' cuda cuda-drivers",
           "# Fedora, Arch and others: remove the packages that own these files; a .run file: sudo nvidia-uninstall",
           "sudo ldconfig", "# then only the toolkit, from the wsl-ubuntu repository: cuda-toolkit-X-Y"});
  }
  if (!f.system.container.empty() && d.code == 500)
    d.error("wsl_container_library_missing",
            "The container lacks a library of the Windows driver: it was made by a container toolkit that is older "
            "than the driver.",
            {"cuInit returned " + code_text(500), "in a container in WSL; drivers from 555 on need libnvdxgdmal.so.1"},
            {"# on the host: nvidia-container-toolkit 1.14.4 or newer, or Docker Desktop 4.31 or newer:",
             "sudo apt-get install --only-upgrade nvidia-container-toolkit && sudo systemctl restart docker",
             "# then start the container again"});
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

}  // namespace env_check
