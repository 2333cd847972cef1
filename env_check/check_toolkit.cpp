// The toolkit: is there an nvcc, which one does a build take, does it fit the driver, the cards, the host compiler.
#include <fmt/format.h>

#include <algorithm>

#include "env_check/diagnosis.hpp"
#include "env_check/files.hpp"

namespace env_check {

std::string toolkit_text(const Toolkit& t) {
  return fmt::format("{} is {} (from {})", t.nvcc, t.version.empty() ? "of unknown version" : t.version, t.from);
}

namespace {

void check_presence(Diagnosis& d) {
  const Facts& f = d.f;
  if (f.toolkits.empty()) {
    Lines how = {"no nvcc on PATH, in CUDA_HOME, /usr/local/cuda*, /opt/cuda"};
    for (const Library& l : f.libraries)
      if (l.name.rfind("libcudart.so", 0) == 0) how.push_back("only the runtime is here: " + l.path);
    const bool matters = d.works || !d.gpus.empty() || f.system.tegra || f.system.wsl;
    const Version release = d.driver.known() && d.driver.major() >= 11 ? d.driver : Version(12, 8);
    d.add(matters ? Severity::kError : Severity::kNote, "no_toolkit",
          matters ? "There is no CUDA toolkit: the GPU programs cannot be built."
                  : "There is no CUDA toolkit. Without a card none is needed: the CPU executor is plain C++.",
          how, matters ? d.install_toolkit(release.release()) : Lines{});
    return;
  }
  const bool on_path = !f.path_nvcc.empty() || std::any_of(f.toolkits.begin(), f.toolkits.end(),
                                                           [](const Toolkit& t) { return t.from == "PATH"; });
  if (on_path || f.toolkits[0].from == "CUDACXX" || f.toolkits[0].version.empty()) return;
  const Toolkit& t = f.toolkits[0];  // case 63
  // The tutorial's build looks into these places itself.
  const bool found =
      t.from == "CUDA_HOME" || t.from == "CUDA_PATH" || t.from == "/usr/local/cuda" || t.from == "/opt/cuda";
  d.add(found ? Severity::kWarning : Severity::kError, "nvcc_not_on_path",
        "The toolkit is installed, but nvcc is not on PATH.",
        {toolkit_text(t), "no nvcc on PATH", found ? "this tutorial's build finds it" : "no build finds it there"},
        {"export PATH=" + parent(t.nvcc) + ":$PATH   # also into ~/.bashrc"});
  if (f.system.sudo)  // case 86
    d.note("sudo_environment", "This runs under sudo, which replaces PATH and drops LD_LIBRARY_PATH.",
           {"SUDO_USER is set"}, {"# build without sudo"});
}

void check_nvcc(Diagnosis& d, const Toolkit& t) {
  const Facts& f = d.f;
  const Version version(t.version);
  if (!version.known()) {
    const bool foreign = !t.machine.empty() && !f.system.machine.empty() && t.machine != f.system.machine;
    Lines how = {t.nvcc + " --version: " + t.error};
    if (foreign) how.push_back("it is a program for " + t.machine + ", this machine is " + f.system.machine);
    d.error("nvcc_broken",
            foreign ? "nvcc does not run: this toolkit is for another kind of processor." : "nvcc does not run.", how,
            d.install_toolkit(d.driver.known() ? d.driver.release() : Version(12, 8)));
    return;
  }
  if (t.headers == false && parent(parent(t.nvcc)) != t.root && t.from != "CUDA_HOME")
    d.error("nvcc_without_headers", "This nvcc is a lone link: called by that name it does not find its own headers.",
            {t.nvcc + ": cuda_runtime.h is in no folder it searches", "the toolkit is " + t.root},
            {"export PATH=" + t.root + "/bin:$PATH"});
  else if (t.headers == false || t.runtime == false)
    d.error("toolkit_incomplete",
            "The toolkit is installed in parts: nvcc is there, its headers or its runtime library are not.",
            {toolkit_text(t),
             t.headers == false ? "no cuda_runtime.h in the folders nvcc searches" : "cuda_runtime.h found",
             t.runtime == false ? "no libcudart in the folders nvcc searches" : "libcudart not missing"},
            contains(t.root, "conda") || t.from == "CONDA_PREFIX"
                ? Lines{fmt::format("conda install -c nvidia cuda-cudart-dev={}.{} cuda-nvcc={}.{}", version.major(),
                                    version.minor(), version.major(), version.minor())}
                : d.install_toolkit(version.release()));
  if (parent(t.nvcc) == "/usr/bin" && t.from == "PATH")  // case 58
    for (const Toolkit& other : f.toolkits)
      if (Version(other.version).release() > version.release()) {
        d.warning("nvcc_shadowed", "The distribution's old nvcc stands before a newer toolkit on PATH.",
                  {toolkit_text(t), toolkit_text(other)},
                  {"export PATH=" + parent(other.nvcc) + ":$PATH   # in front, not behind",
                   "# or: sudo apt-get remove nvidia-cuda-toolkit; then delete the build folder (CMake remembers the "
                   "old nvcc)"});
        break;
      }
  // Case 55. nvcc prefers the ptxas beside it; the one on PATH matters to Triton and to toolkits put together by hand.
  const Version ptxas(t.ptxas), path_ptxas(f.path_ptxas);
  if ((ptxas.known() && ptxas.release() != version.release()) ||
      (t.from == "PATH" && path_ptxas.known() && path_ptxas.release() != version.release()))
    d.warning(
        "ptxas_mixed", "nvcc and ptxas come from different toolkits.",
        {toolkit_text(t), "ptxas beside it: " + (t.ptxas.empty() ? "none" : t.ptxas),
         "ptxas on PATH: " + (f.path_ptxas.empty() ? "none" : f.path_ptxas)},
        {"export PATH=" + t.root + "/bin:$PATH", "export TRITON_PTXAS_PATH=" + t.root + "/bin/ptxas   # for Triton"});
}

void check_against_driver(Diagnosis& d, const Toolkit& t) {
  const Facts& f = d.f;
  const Version toolkit = Version(t.version).release();
  Version driver = d.driver;
  std::string source = "libcuda or NVML";
  if (!driver.known() && !f.module.version.empty()) {
    driver = cuda_of_driver(Version(f.module.version));
    source = "the version of the kernel module";
  }
  if (!toolkit.known() || !driver.known()) return;
  const Lines how = {
      fmt::format("driver {}: up to CUDA {} (from {})",
                  driver_version(f).empty() ? "of unknown version" : driver_version(f), driver.text(), source),
      toolkit_text(t)};
  const std::string needed = driver_for_toolkit(toolkit, f.system.wsl);
  if (toolkit.major() > driver.major()) {  // case 2
    const std::string least = oldest_driver_for_major(toolkit.major(), f.system.wsl);
    Lines fix = d.install_driver(least);
    fix.push_back(
        fmt::format("# or build with a toolkit of the driver's major version, CUDA {} or older:", driver.text()));
    for (const std::string& line : d.install_toolkit(driver)) fix.push_back(line);
    d.error(
        "driver_too_old",
        fmt::format("The driver is too old for CUDA {}: programs built with it stop with error 35.", toolkit.major()),
        how, fix);
  } else if (toolkit > driver) {  // case 45
    Lines fix = {
        fmt::format("# build machine code for the card, which needs no new driver: -DCMAKE_CUDA_ARCHITECTURES={}",
                    cuda_architectures(f).empty() ? "<card>" : cuda_architectures(f))};
    for (const std::string& line : d.install_driver(needed)) fix.push_back(line);
    d.warning("ptx_newer_than_driver",
              "The toolkit is newer than the driver: machine code runs, PTX does not (error 222).", how, fix);
  } else if (toolkit != driver) {  // case 57
    d.note("smi_and_nvcc_differ",
           "nvidia-smi and nvcc show different CUDA versions, and that is right: one is the newest the driver can run, "
           "the other what is installed.",
           how, {});
  }
}

void check_against_cards(Diagnosis& d, const Toolkit& t) {
  const Facts& f = d.f;
  const auto archs = archs_of(t);
  if (!archs) return;
  for (const Card& card : cards_of(f)) {
    if (archs->has(card.arch)) continue;
    const Severity severity = card.guessed ? Severity::kWarning : Severity::kError;
    const Lines how = {fmt::format("{}: sm_{}{}", card.name, card.arch, card.guessed ? ", by its PCI id" : ""),
                       fmt::format("{}: sm_{} to sm_{}", toolkit_text(t), archs->lowest(), archs->highest())};
    Lines other;
    for (const Toolkit& o : f.toolkits)
      if (const auto a = archs_of(o); a && a->has(card.arch)) {
        other = {fmt::format("export PATH={}:$PATH   # CUDA {}, already here", parent(o.nvcc), o.version)};
        break;
      }
    if (card.arch < archs->lowest()) {  // case 50
      const Version last = last_nvcc_for(card.arch);
      const Lines old = last.known() ? d.install_toolkit(last) : Lines{"# a toolkit older than CUDA 11"};
      d.add(severity, "nvcc_dropped_card", "This nvcc no longer compiles for the card.", how,
            other.empty() ? old : other);
    } else if (!archs->beyond_table) {  // case 49
      const Version first = first_nvcc_for(card.arch);
      if (!first.known() && other.empty()) other = {"# the newest toolkit there is"};
      Lines fix = other.empty() ? d.install_toolkit(first) : other;
      if (const int below = archs->newest_below(card.arch); below > 0)
        fix.push_back(
            fmt::format("# until then, PTX that the driver compiles: -DCMAKE_CUDA_ARCHITECTURES={}-virtual", below));
      d.add(severity, "nvcc_too_old", "This nvcc does not know the card.", how, fix);
    }
  }
}

}  // namespace

void check_toolkit(Diagnosis& d) {
  check_presence(d);
  check_variables(d);
  const Toolkit* t = build_toolkit(d.f);
  if (!t) return;
  check_nvcc(d, *t);
  check_against_driver(d, *t);
  check_against_cards(d, *t);
  check_compiler(d, *t);
}

}  // namespace env_check
