// Libraries a program would load, files given with --binary, and an error code seen elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "env_check/diagnosis.hpp"
#include "env_check/files.hpp"

namespace env_check {
namespace {

const char* const kToolkitParts[] = {"libcudart.so.",   "libcublas.so.",    "libcublasLt.so.", "libcusparse.so.",
                                     "libcusolver.so.", "libnvJitLink.so.", "libnvrtc.so."};

void check_cudart(Diagnosis& d) {
  const Toolkit* t = build_toolkit(d.f);
  const Version nvcc(t ? t->version : "");
  if (!nvcc.known()) return;
  for (const Library& l : d.f.libraries) {
    if (l.where != "LD_LIBRARY_PATH" || !starts_with(l.name, "libcudart.so.")) continue;
    const Version found(l.version.empty() ? l.name.substr(13) : l.version);
    // A wheel's file is just libcudart.so.12: then only the major version is known.
    const bool other = found.major() != nvcc.major() || (found.parts.size() >= 3 && found.release() != nvcc.release());
    if (!other) return;  // the first match is what programs get
    d.warning("other_cudart",
              found.major() == nvcc.major()
                  ? "LD_LIBRARY_PATH gives programs the CUDA runtime of another toolkit than nvcc's."
                  : "LD_LIBRARY_PATH points at another toolkit than nvcc's: programs get its libraries, or find none.",
              {l.path + " is " + (found.known() ? found.text() : "?"), fmt::format("{} is {}", t->nvcc, t->version),
               d.env_text("LD_LIBRARY_PATH")},
              {"unset LD_LIBRARY_PATH", fmt::format("# or: export LD_LIBRARY_PATH={}/lib64", t->root),
               "# what a program gets: ldd ./program"});
    return;
  }
}

// The toolkits these folders belong to. NVIDIA's wheels keep each library in a folder of its own, and so may a toolkit
// (lib64, targets/…/lib): what counts is the folder above them.
std::set<std::string> toolkits_of(const std::set<std::string>& folders) {
  std::set<std::string> roots;
  for (const std::string& folder : folders) {
    std::string root = folder;
    for (const char* end : {"/site-packages/nvidia/", "/targets/", "/lib64", "/lib"})
      if (const size_t at = root.find(end); at != std::string::npos && at > 0) root = root.substr(0, at);
    roots.insert(root);
  }
  return roots;
}

void check_mixed(Diagnosis& d) {  // case 33
  std::set<std::string> seen, folders;
  Lines how;
  for (const Library& l : d.f.libraries) {
    if (l.where != "LD_LIBRARY_PATH" || !seen.insert(l.name).second) continue;
    if (std::none_of(std::begin(kToolkitParts), std::end(kToolkitParts),
                     [&](const char* start) { return starts_with(l.name, start); }))
      continue;
    if (!folders.insert(parent(l.real.empty() ? l.path : l.real)).second) continue;
    how.push_back(l.name + " from " + parent(l.path));
  }
  if (toolkits_of(folders).size() >= 2)
    d.warning(
        "mixed_cuda_libraries",
        "LD_LIBRARY_PATH mixes the libraries of several toolkits, which fail with undefined symbols.", how,
        {"unset LD_LIBRARY_PATH   # wheels and built programs find their own libraries", "# or name one toolkit only"});
}

// What one program would load: two runtimes at once, parts of several toolkits, a file that LD_LIBRARY_PATH puts in the
// place of the program's own, a libcuda that is not the driver's.
void check_conflicts(Diagnosis& d, const Binary& b) {
  std::set<std::string> folders;
  Lines runtimes, parts, replaced;
  for (const NeededLibrary& n : b.needed) {
    const std::string line = fmt::format("{} → {} ({})", n.name, n.path, n.why);
    const std::string& real = n.real.empty() ? n.path : n.real;
    if (starts_with(n.name, "libcudart.so.")) runtimes.push_back(line + (n.by.empty() ? "" : ", for " + n.by));
    if (n.path.empty()) continue;
    if (starts_with(n.name, "libcuda.so")) {
      if (contains(real, "/stubs/"))
        d.error(
            "stub_libcuda", error_code(34).cause, {b.path + ": " + line},
            {"# take */stubs out of LD_LIBRARY_PATH and of the program's RPATH: stubs are for the linker's -L only"});
      continue;
    }
    const bool toolkit_part = std::any_of(std::begin(kToolkitParts), std::end(kToolkitParts),
                                          [&](const char* part) { return starts_with(n.name, part); });
    if (toolkit_part && folders.insert(parent(real)).second) parts.push_back(line);
    if ((n.why == "LD_LIBRARY_PATH" || n.why == "LD_PRELOAD") && contains(n.instead, "(RUNPATH)"))
      replaced.push_back(fmt::format("{}, its own would be {}", line, n.instead));
  }
  if (runtimes.size() >= 2)
    d.warning("two_runtimes", "A program loads two CUDA runtimes: its libraries were built with different toolkits.",
              runtimes, {"# rebuild the library that asks for the older one", "ldd " + b.path});
  else if (toolkits_of(folders).size() >= 2)
    d.warning("mixed_cuda_libraries",
              "A program gets its CUDA libraries from several toolkits, which can fail with undefined symbols.", parts,
              {"unset LD_LIBRARY_PATH", "# or name one toolkit only"});
  if (!replaced.empty())
    d.warning("library_replaced", "LD_LIBRARY_PATH puts another CUDA library in the place of the program's own.",
              replaced, {"unset LD_LIBRARY_PATH"});
}

void check_needed(Diagnosis& d, const Binary& b) {
  for (const NeededLibrary& n : b.needed) {
    const bool driver_library = starts_with(n.name, "libcuda.so") || starts_with(n.name, "libnvidia-");
    if (n.path.empty() && !driver_library)
      d.error(
          "library_not_found", "A program needs a CUDA library that the loader does not find.",
          {b.path + " needs " + n.name},
          {"# the folder of the toolkit that built it, for example:", "export LD_LIBRARY_PATH=/usr/local/cuda/lib64"});
    if (starts_with(n.name, "libcudart.so.") && d.driver.known()) {
      const Version runtime(n.name.substr(13));
      if (runtime.major() > d.driver.major())
        d.error("driver_too_old",
                fmt::format("The driver is too old for CUDA {}: programs built with it stop with error 35.",
                            runtime.major()),
                {b.path + " needs " + n.name, "the driver goes up to CUDA " + d.driver.text()},
                d.install_driver(oldest_driver_for_major(runtime.major(), d.f.system.wsl)));
    }
  }
}

void check_fit(Diagnosis& d, const Binary& b, const Card& card) {
  const Facts& f = d.f;
  const CodeFit fit = best_fit(b.code, card.arch, d.driver);
  const std::string on = fmt::format("{} on {} (sm_{})", b.path, card.name, card.arch);
  const Lines how = {on, "it holds: " + code_list(b.code)};
  const std::string arch = card.arch == 90 ? "90a" : std::to_string(card.arch);
  const Lines rebuild = {fmt::format("cmake -DCMAKE_CUDA_ARCHITECTURES={0} …   # or nvcc -arch=sm_{0}", arch)};
  switch (fit.fit) {
    case Fit::kRuns:
      return;
    case Fit::kJit:
      if (f.driver.jit_library == false && !f.system.wsl && !f.system.tegra)
        d.error("ptxjit_missing", "A program needs the driver's PTX compiler, which is missing (error 221).", how,
                rebuild);
      else if (d.env_is("CUDA_DISABLE_PTX_JIT", "1"))
        d.error("jit_disabled", "A program needs its PTX compiled, and CUDA_DISABLE_PTX_JIT forbids it (error 223).",
                how, {"unset CUDA_DISABLE_PTX_JIT"});
      else
        d.note("binary_jit", "A program runs from PTX: the driver compiles it at the first start, which takes time.",
               {on, "from " + code_name(fit.code)}, rebuild);
      return;
    case Fit::kPtxTooNew:
      d.error("ptx_newer_than_driver",
              "A program has only PTX for this card, and of a newer CUDA than the driver's (error 222).",
              {on, fmt::format("{} needs a driver for CUDA {}, this one goes up to {}", code_name(fit.code),
                               cuda_of_ptx({fit.code.isa_major, fit.code.isa_minor}).text(), d.driver.text())},
              rebuild);
      return;
    case Fit::kNoCode:
      if (fit.only_specific)  // case 42
        d.error("binary_arch_specific",
                "A program's code is locked to another card (the a or f after the number), PTX included: error 209.",
                how, rebuild);
      else  // cases 39 to 41, 47, 54, 87
        d.error("binary_no_arch",
                "A program has no code for this card: its kernels fail with error 209, and if nobody checks the launch "
                "it prints zeros.",
                how, rebuild);
      return;
  }
}

}  // namespace

void check_libraries(Diagnosis& d) {
  check_cudart(d);
  check_mixed(d);
}

void check_programs(Diagnosis& d) {
  const Facts& f = d.f;
  for (const Binary& b : f.binaries) {
    if (!b.error.empty())
      d.warning("binary_unreadable", "A file given with --binary could not be read in full.", {b.path + ": " + b.error},
                {"# give an executable, a shared library, an object file or a cubin"});
    else if (b.code.empty())
      d.note("binary_without_gpu_code", "A file given with --binary holds no device code.", {b.path}, {});
    const bool only_lto =
        std::all_of(b.code.begin(), b.code.end(), [](const DeviceCode& c) { return c.kind == "lto"; });
    if (only_lto && !b.code.empty())
      d.note("binary_not_linked",
             "A file given with --binary holds only code that nvcc turns into machine code at the link.",
             {b.path + ": " + code_list(b.code)}, {"# give the program that it is linked into"});
    if (!b.machine.empty() && b.machine != "cuda" && !f.system.machine.empty() && b.machine != f.system.machine) {
      d.error("wrong_elf_class", "A program is for another kind of processor.",
              {b.path + ": " + b.machine, "this machine: " + f.system.machine}, {"# build it here"});
      continue;
    }
    check_needed(d, b);
    check_conflicts(d, b);
    if (only_lto) continue;
    for (const Card& card : cards_of(f)) check_fit(d, b, card);
  }
}

void check_reported_error(Diagnosis& d) {
  const Facts& f = d.f;
  if (!f.reported_error) return;
  const int code = *f.reported_error;
  const Lines how = {"reported: " + code_text(code),
                     d.works ? "here, in a fresh process, CUDA starts" : "here CUDA does not start either"};
  if (d.works && code == 3) {  // case 81
    d.error("fork_after_init", "The program used CUDA before it forked: its children cannot.", how,
            {"# Python: multiprocessing.set_start_method(\"spawn\"); else start CUDA only in the children"});
    return;
  }
  if (d.works && code == 999 && f.system.suspends > 0) {
    d.error("stale_after_suspend", "CUDA broke at a suspend in programs that had the card open.", how,
            {"# end them, then:", "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm"});
    return;
  }
  if (d.any_error()) return;  // found the cause already
  const ErrorCode known = error_code(code);
  if (!known.cause.empty() && known.findings.empty()) {  // 700, 719 …: the machine has no part in it
    d.note("program_error", known.cause, how, {"compute-sanitizer <the program>"});
    return;
  }
  Lines fix;
  if (code == 209 || code == 98 || code == 48 || code == 222 || code == 218)
    fix = {"env_check --binary <the program>   # which cards its code is for",
           "# the program may load libraries with code of their own: name them too"};
  else if (code == 35)
    fix = {"ldd <the program> | grep cud",
           "# it may see another environment (container, sudo, service): run env_check there"};
  else
    fix = {"CUDA_LOG_FILE=stderr <the program>   # newer drivers then say why",
           "# run env_check in the same shell, container or service as the program"};
  Lines seen = how;
  if (!known.cause.empty()) seen.push_back("usually: " + known.cause);
  d.error("error_not_reproduced",
          "The error does not appear here: the program differs from this check in its code or its environment.", seen,
          fix);
}

}  // namespace env_check
