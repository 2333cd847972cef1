// The toolkit: is there an nvcc, which one does a build take, does it fit the driver, the cards, the host compiler.
#include <fmt/format.h>

#include <algorithm>

#include "env_check/diagnosis.hpp"

namespace env_check {
namespace {

std::string toolkit_text(const Toolkit& t) {
  return fmt::format("{} is {} (from {})", t.nvcc, t.version.empty() ? "of unknown version" : t.version, t.from);
}

std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

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
  const bool any = std::any_of(f.toolkits.begin(), f.toolkits.end(), reachable);
  if (!any) {  // case 63
    const Toolkit& t = f.toolkits[0];
    d.error("nvcc_not_on_path", "The toolkit is installed, but nvcc is not on PATH.",
            {toolkit_text(t), "no nvcc on PATH"}, {"export PATH=" + parent(t.nvcc) + ":$PATH   # also into ~/.bashrc"});
    if (f.system.sudo)  // case 86
      d.note("sudo_environment", "This runs under sudo, which replaces PATH and drops LD_LIBRARY_PATH.",
             {"SUDO_USER is set"}, {"# build without sudo"});
  }
}

void check_variables(Diagnosis& d) {  // case 64
  const Facts& f = d.f;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string* value = f.env(name);
    if (!value) continue;
    const Lines& valid = f.homes_with_nvcc;
    const bool good = std::find(valid.begin(), valid.end(), name) != valid.end();
    if (good) continue;
    std::string why = "there is no bin/nvcc in it";
    if (value->empty()) why = "it is empty";
    if (!value->empty() && (value->front() == ':' || value->front() == ' ')) why = "it starts with a stray character";
    if (value->size() > 4 && value->substr(value->size() - 4) == "/bin")
      why = "it ends in /bin, but names the folder above";
    Lines fix = {fmt::format("unset {}", name)};
    if (const Toolkit* t = build_toolkit(f)) fix = {fmt::format("export {}={}", name, t->root)};
    d.warning("cuda_home_wrong", fmt::format("{} does not name a toolkit.", name), {d.env_text(name), why}, fix);
  }
  if (f.usr_local_cuda == "dangling") {
    Lines fix = {"sudo rm /usr/local/cuda"};
    for (const Toolkit& t : f.toolkits)
      if (t.root.rfind("/usr/local/cuda-", 0) == 0 && fix.size() == 1)
        fix = {"sudo ln -sfn " + t.root + " /usr/local/cuda"};
    d.warning("cuda_link_dangling", "/usr/local/cuda is a link to a toolkit that is gone.",
              {"/usr/local/cuda points nowhere"}, fix);
  }
}

void check_nvcc(Diagnosis& d, const Toolkit& t) {
  const Facts& f = d.f;
  const Version version(t.version);
  if (!version.known()) {
    d.error("nvcc_broken", "nvcc does not run.", {t.nvcc + " --version: " + t.error},
            d.install_toolkit(d.driver.known() ? d.driver.release() : Version(12, 8)));
    return;
  }
  if (t.headers == false)
    d.error("nvcc_without_headers", "This nvcc is a lone link: called by that name it does not find its own headers.",
            {t.nvcc + ": no include/cuda_runtime.h beside it", "the toolkit is " + t.root},
            {"export PATH=" + t.root + "/bin:$PATH"});
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
  const auto archs = archs_of_nvcc(Version(t.version));
  if (!archs) return;
  for (const Card& card : cards_of(f)) {
    if (archs->has(card.arch)) continue;
    const Severity severity = card.guessed ? Severity::kWarning : Severity::kError;
    const Lines how = {fmt::format("{}: sm_{}{}", card.name, card.arch, card.guessed ? ", by its PCI id" : ""),
                       fmt::format("{}: sm_{} to sm_{}", toolkit_text(t), archs->lowest(), archs->highest())};
    Lines other;
    for (const Toolkit& o : f.toolkits)
      if (const auto a = archs_of_nvcc(Version(o.version)); a && a->has(card.arch)) {
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

void check_arch_variable(Diagnosis& d, const Toolkit* t) {
  const Facts& f = d.f;
  const std::string* list = f.env("CUDAARCHS");
  if (!list) return;
  const Version version(t ? t->version : "");
  const auto archs = archs_of_nvcc(version);
  const std::string good = cuda_architectures(f);
  const Lines fix = {"export CUDAARCHS=\"" + (good.empty() ? "80;90" : good) + "\""};
  for (const std::string& item : list_items(*list, ';')) {
    const std::string arch = item.substr(0, item.find('-'));
    if (arch == "native") {  // case 51
      if (!d.works)
        d.error("native_without_gpu", "The architecture \"native\" asks the card, and no card answers.",
                {d.env_text("CUDAARCHS")}, fix);
      else if (version.known() && version < Version(11, 6))
        d.error("native_unknown", "This nvcc does not know -arch=native; CUDA 11.6 and later do.",
                {toolkit_text(*t), d.env_text("CUDAARCHS")}, fix);
      continue;
    }
    if (arch.empty() || !std::isdigit(static_cast<unsigned char>(arch[0]))) continue;
    const Version cmake(f.system.cmake);
    if (arch.back() == 'f' && cmake.known() && cmake < Version(3, 26))  // case 53
      d.error(
          "cmake_too_old_for_arch", "This CMake does not know the spelling of family architectures.",
          {d.env_text("CUDAARCHS"), "cmake " + f.system.cmake},
          {"# a newer CMake, or:",
           fmt::format(
               "cmake -DCMAKE_CUDA_ARCHITECTURES=OFF -DCMAKE_CUDA_FLAGS=\"-gencode arch=compute_{0},code=sm_{0}\" …",
               arch)});
    if (archs && !archs->beyond_table &&
        std::find(archs->archs.begin(), archs->archs.end(), arch) == archs->archs.end())
      d.error("arch_list_unsupported", "The list of architectures names one that this nvcc does not compile for.",
              {d.env_text("CUDAARCHS"), "not known: " + arch, toolkit_text(*t)}, fix);
  }
}

void check_compiler(Diagnosis& d, const Toolkit& t) {
  const Facts& f = d.f;
  const Version nvcc(t.version), compiler(f.compiler.version);
  if (!nvcc.known()) return;
  if (f.compiler.path.empty()) {
    const bool asked_path = f.compiler.from == "PATH" || f.compiler.from.empty();
    if (!f.compiler.from.empty())
      d.error("no_host_compiler",
              asked_path ? "There is no g++ on PATH, which nvcc needs." : f.compiler.from + " names no compiler.",
              {asked_path ? "no g++ on PATH" : d.env_text(f.compiler.from)}, d.install("g++", "gcc-c++"));
    return;
  }
  if (!compiler.known()) return;
  const auto table = compiler_limit(nvcc);
  const bool clang = f.compiler.kind == "clang";
  const int limit = clang ? (table ? table->clang : 0) : t.gcc_max.value_or(table ? table->gcc : 0);
  const std::string source = !clang && t.gcc_max ? "its crt/host_config.h" : "the table of host compilers";
  const Lines how = {
      fmt::format("{} {} at {} (from {})", f.compiler.kind, f.compiler.version, f.compiler.path, f.compiler.from),
      fmt::format("CUDA {} takes {} up to {} ({})", t.version, f.compiler.kind, limit, source)};
  const auto use = [&](int newest) {
    for (const Compiler& other : f.other_compilers)
      if (const int major = Version(other.version).major(); other.kind == "gcc" && major <= newest && major >= 7)
        return Lines{"export NVCC_CCBIN=" + other.path + " CUDAHOSTCXX=" + other.path + "   # already here"};
    Lines fix = d.install(fmt::format("g++-{}", newest), fmt::format("gcc-toolset-{}", newest));
    fix.push_back(fmt::format("export NVCC_CCBIN=g++-{0} CUDAHOSTCXX=g++-{0}", newest));
    return fix;
  };
  if (limit > 0 && compiler.major() > limit) {  // case 59
    Lines fix = use(clang ? (table ? table->gcc : 12) : limit);
    fix.push_back("# or a newer toolkit. -allow-unsupported-compiler only trades this error for stranger ones");
    d.error("gcc_too_new", "The host compiler is newer than this nvcc accepts.", how, fix);
  } else if (!clang && compiler.major() >= 11 && nvcc.release() < Version(11, 6) && nvcc.release() >= Version(11, 0)) {
    d.error("gcc11_with_old_nvcc",  // case 61
            "This nvcc accepts gcc 11, but cannot parse its standard library (\"parameter packs not expanded with "
            "'...'\").",
            how, use(10));
  }
  const Version glibc(f.system.glibc);
  if (glibc >= Version(2, 41) && nvcc.release() <= Version(12, 9))
    d.error("glibc_too_new", "This C library declares functions (cospi, sinpi …) that clash with the toolkit's.",
            {"glibc " + f.system.glibc, toolkit_text(t)}, d.install_toolkit(Version(13, 0)));
}

}  // namespace

void check_toolkit(Diagnosis& d) {
  check_presence(d);
  check_variables(d);
  const Toolkit* t = build_toolkit(d.f);
  check_arch_variable(d, t);
  if (!t) return;
  check_nvcc(d, *t);
  check_against_driver(d, *t);
  check_against_cards(d, *t);
  check_compiler(d, *t);
}

}  // namespace env_check
