// libcuda.so.1 could not be loaded, outside WSL: is it absent, out of the loader's sight, or a file that is no use?
#include <fmt/format.h>

#include "env_check/diagnosis.hpp"
#include "env_check/files.hpp"

namespace env_check {
namespace {

// The libcuda.so.1 that the loader would come to first; nullptr without any.
const Library* first_libcuda(const Facts& f) {
  for (const char* where : {"LD_LIBRARY_PATH", "cache", "default"})
    for (const Library& l : f.libraries)
      if (l.where == where && l.name == "libcuda.so.1") return &l;
  return nullptr;
}

// Whether the file is there but useless. The loader's own words say so too, where the facts list no library.
bool check_useless_file(Diagnosis& d, const Lines& how) {
  const Facts& f = d.f;
  const std::string& error = f.driver.error;
  const Library* library = first_libcuda(f);
  const bool other_machine =
      library && library->elf_bits != 0 &&
      (library->elf_bits != 64 || (!library->machine.empty() && library->machine != f.system.machine));
  if (other_machine || contains(error, "wrong ELF class")) {  // case 88
    Lines seen = how;
    for (const Library& l : f.libraries)
      if (l.name == "libcuda.so.1") seen.push_back(fmt::format("{}: {}-bit {}", l.path, l.elf_bits, l.machine));
    d.error("wrong_elf_class", "The libcuda that is found is for another kind of processor or for 32-bit programs.",
            seen, d.install("libnvidia-compute-<driver branch>:amd64", "nvidia-driver-cuda-libs"));
    return true;
  }
  const bool unreadable = contains(error, "ermission denied");
  const bool no_library = library && library->elf_bits == 0 && !unreadable;
  if (no_library || contains(error, "too short") || contains(error, "invalid ELF header")) {  // case 79
    const std::string file = no_library ? library->path : error.substr(0, error.find(": "));
    const std::string* search = f.env("LD_LIBRARY_PATH");
    if (search && contains(":" + *search + ":", ":" + parent(file) + ":"))
      d.error("broken_libcuda", "The file libcuda.so.1 that LD_LIBRARY_PATH leads to is no library.",
              {how[0], d.env_text("LD_LIBRARY_PATH")}, {"unset LD_LIBRARY_PATH", "# or delete " + file});
    else if (!f.system.container.empty())
      d.error("image_driver_libraries", "The container's image carries a libcuda.so.1 that is no library.", how,
              {"# in the image: delete the empty libcuda files, or build it without a mounted driver"});
    else
      d.error("broken_libcuda", "The file libcuda.so.1 that is found is no library.", how, d.install_driver(""));
    return true;
  }
  const bool absent = error.empty() || contains(error, "No such file") || contains(error, "cannot open shared object");
  if (library && (unreadable || !absent)) {
    if (f.system.address_limit && contains(error, "map"))
      d.error("address_space_limit", "The process's address space is too small even to load the driver's library.",
              {how[0], fmt::format("ulimit -v is {} kB", *f.system.address_limit)}, {"ulimit -v unlimited"});
    else
      d.error("libcuda_unloadable",
              "The driver's library is there, but the loader refuses it: closed to this user, built for a newer C "
              "library, or missing a library of its own.",
              {how[0], library->path + " → " + library->real, "glibc " + f.system.glibc},
              {"ls -lL " + library->path + "; ldd " + library->path + "   # which of the three it is"});
    return true;
  }
  return false;
}

}  // namespace

void check_not_loaded(Diagnosis& d) {
  const Facts& f = d.f;
  const Lines how = {"dlopen: " + f.driver.error};
  if (check_useless_file(d, how)) return;
  if (!f.system.sandbox.empty() && d.native) {
    d.error("sandbox_no_driver",
            "This runs inside a " + f.system.sandbox + " sandbox, which hides the driver's libraries.",
            {how[0], "sandbox: " + f.system.sandbox},
            {"# use a program that is not from a " + f.system.sandbox + " package; or let this one see the driver:",
             f.system.sandbox == "snap" ? "snap connections   # the interface opengl (gpu-2404) must be connected"
                                        : "flatpak update   # installs org.freedesktop.Platform.GL.nvidia-*"});
    return;
  }
  for (const Library& l : f.libraries)
    if (l.where == "unsearched" && starts_with(l.name, "libcuda.so") && l.size > 0 && l.name != "libcuda.so" &&
        !contains(l.path, "/compat/") && !contains(l.path, "/stubs/")) {  // case 85
      const std::string folder = parent(l.path);
      d.error("driver_folder_unusual", "The driver's libraries lie in a folder that no program looks into.",
              {how[0], "found: " + l.path},
              {"export LD_LIBRARY_PATH=" + folder + "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}", "# or for everybody:",
               "echo " + folder + " | sudo tee /etc/ld.so.conf.d/nvidia-driver.conf && sudo ldconfig"});
      return;
    }
  if (!f.system.container.empty()) {
    const bool nodes = d.node("/dev/nvidiactl") || (f.wsl.dxg && !f.system.tegra);
    if (nodes)  // case 74
      d.error("container_no_compute", "The container has the card, but not the driver's compute libraries.",
              {how[0], f.wsl.dxg ? "/dev/dxg exists" : "/dev/nvidiactl exists",
               "libnvidia-ml: " + (f.nvml.path.empty() ? f.nvml.state : f.nvml.path),
               d.env_text("NVIDIA_DRIVER_CAPABILITIES")},
              {"docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …",
               "# compose: capabilities: [gpu, compute, utility]"});
    return;
  }
  if (f.module.loaded || f.nvml.state == "answered") {
    const Version branch(driver_version(f));
    const std::string number = branch.known() ? std::to_string(branch.major()) : "<branch>";
    d.error("driver_without_compute",
            "The NVIDIA driver runs, but the package with its CUDA library (libcuda.so.1) is not installed.",
            {how[0], "kernel module " + (f.module.version.empty() ? "loaded" : f.module.version),
             "libnvidia-ml: " + (f.nvml.path.empty() ? f.nvml.state : f.nvml.path)},
            d.is_distribution({"debian"}) ? Lines{"sudo apt-get install libcuda1"}
                                          : d.install("libnvidia-compute-" + number,
                                                      "xorg-x11-drv-nvidia-cuda   # NVIDIA's own repository: "
                                                      "nvidia-driver-cuda"));
  } else if (!d.gpus.empty() || f.system.tegra) {  // case 1
    d.error("no_driver",
            "The machine has an NVIDIA card, but no NVIDIA driver library. CUDA programs call this error 35, \"driver "
            "insufficient\".",
            how, d.install_driver(""));
  }
}

}  // namespace env_check
