// Whether the driver's libraries and its kernel module are of one version, and if not, which of the ways it came to that.
#include <fmt/format.h>

#include <set>

#include "env_check/diagnosis.hpp"
#include "env_check/files.hpp"

namespace env_check {
namespace {

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

// Every libcuda that the loader could find, with its version: two of them are two installations of the driver.
std::set<std::string> installed_versions(const Facts& f) {
  std::set<std::string> versions;
  for (const Library& l : f.libraries)
    if (starts_with(l.name, "libcuda.so") && l.where != "unsearched" && l.elf_bits == 64 && !is_compat(l.real))
      if (const Version v = version_in(l.real); v.known()) versions.insert(v.text());
  return versions;
}

bool check_compat(Diagnosis& d, const Version& module, const Version& cuda, const Version& nvml, const Lines& how) {
  const Facts& f = d.f;
  // A libcuda of a CUDA major that the module's branch is too old for can only be a compatibility package, whatever its
  // folder.
  const Version least(d.driver.known() ? oldest_driver_for_major(d.driver.major(), false) : "");
  const bool compat = is_compat(f.driver.path) || (module.known() && cuda > module && nvml == module) ||
                      (module.known() && least.known() && module.major() < least.major());
  const Lines drop = {"# drop the compat folder from LD_LIBRARY_PATH and /etc/ld.so.conf.d, then:", "sudo ldconfig"};
  if (d.code == 804) {  // case 35
    Lines fix = drop;
    fix.push_back("# and give the host a driver that is new enough, or take an image with an older CUDA");
    d.error("compat_unsupported",
            error_code(804).cause + " Only data-centre cards, some RTX server cards and Jetson do.",
            {how[0], "cuInit returned " + code_text(804), d.env_text("LD_LIBRARY_PATH")}, fix);
    return true;
  }
  if (compat && d.code == 803) {
    d.error("compat_older", "The compatibility libcuda in front is not newer than the kernel module.",
            {how[0], code_text(803)}, drop);
    return true;
  }
  if (compat && d.works)
    d.note("compat_active", "Programs run through a forward compatibility libcuda, not the driver's own.", how, {});
  return compat;
}

}  // namespace

void check_versions(Diagnosis& d) {
  const Facts& f = d.f;
  const Version module(f.module.version);
  const Version cuda = library_version(f, f.driver.path, "libcuda.so.1");
  const Version nvml = library_version(f, f.nvml.path, "libnvidia-ml.so.1");
  Lines seen = {fmt::format("kernel module {}, libcuda {} ({})", module.known() ? module.text() : "not loaded",
                            cuda.known() ? cuda.text() : "?", f.driver.path.empty() ? "not loaded" : f.driver.path)};
  if (check_compat(d, module, cuda, nvml, seen)) return;

  const bool nvml_says = f.nvml.init_result == 18 || d.code == 803;
  const bool differ = module.known() && ((cuda.known() && cuda != module) || (nvml.known() && nvml != module));
  if (!nvml_says && !differ) return;
  if (nvml.known()) seen.push_back("libnvidia-ml " + nvml.text());
  if (f.nvml.init_result == 18) seen.push_back("NVML answers 18 (driver/library version mismatch)");
  const std::set<std::string> installed = installed_versions(f);
  for (const Library& l : f.libraries)
    if (starts_with(l.name, "libcuda.so") && l.where != "unsearched" && (installed.size() > 1 || !d.native))
      seen.push_back(fmt::format("{} → {} ({} bytes)", l.path, l.real, l.size));
  if (!f.system.container.empty()) {  // case 79
    d.error(
        "image_driver_libraries",
        "The container's image carries driver libraries of its own, and they do not match the host's kernel module.",
        seen,
        {"# in the image: the driver belongs to the host and is mounted at start",
         "apt-get purge 'libnvidia-compute-*' 'nvidia-utils-*' && ldconfig"});
    return;
  }
  const Severity severity = d.works && !nvml_says ? Severity::kWarning : Severity::kError;
  if (installed.count(module.text()) && installed.size() > 1) {
    d.add(
        severity, "two_drivers",
        "Two versions of the driver's libraries are installed (a package and NVIDIA's .run file, for example), and the "
        "one that does not match the kernel module is found first.",
        seen,
        {"dpkg -S <path>; rpm -qf <path>   # whose file is the wrong one; nobody's: the .run file's",
         "sudo nvidia-uninstall   # removes what a .run file installed", "sudo ldconfig"});
    return;
  }
  d.add(severity, "driver_library_mismatch",
        "The driver's libraries were upgraded, but the kernel still runs the old module.", seen,
        {"sudo reboot", "# or, after stopping every program that uses the card:",
         "sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia"});
}

}  // namespace env_check
