// The host compiler that nvcc calls, and the C library whose headers it reads.
#include <fmt/format.h>

#include "env_check/diagnosis.hpp"
#include "env_check/files.hpp"

namespace env_check {
namespace {

// glibc 2.41 brought cospi, sinpi …, glibc 2.42 rsqrt, all noexcept; NVIDIA's headers followed with 13.0 and 13.2.
// Distributions patch older ones, so the header itself has the last word.
void check_c_library(Diagnosis& d, const Toolkit& t) {
  const Version glibc(d.f.system.glibc), nvcc = Version(t.version).release();
  const bool cospi = glibc >= Version(2, 41) && !t.cospi_guarded.value_or(nvcc >= Version(13, 0));
  const bool rsqrt = glibc >= Version(2, 42) && !t.rsqrt_guarded.value_or(nvcc >= Version(13, 2));
  if (!cospi && !rsqrt) return;
  const std::string names =
      join(cospi && rsqrt ? Lines{"cospi, sinpi, rsqrt"} : Lines{cospi ? "cospi, sinpi" : "rsqrt"});
  Lines fix = d.install_toolkit(rsqrt || glibc >= Version(2, 42) ? Version(13, 2) : Version(13, 0));
  fix.push_back("# or build in a container with an older C library, nvidia/cuda:<version>-devel-ubuntu24.04");
  d.error("glibc_too_new",
          "This C library declares functions that clash with the toolkit's (\"exception specification is "
          "incompatible\").",
          {"glibc " + d.f.system.glibc, toolkit_text(t), "declared without noexcept in its headers: " + names}, fix);
}

}  // namespace

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
    const bool allowed = contains(d.env_text("NVCC_APPEND_FLAGS"), "-allow-unsupported-compiler") ||
                         contains(d.env_text("NVCC_PREPEND_FLAGS"), "-allow-unsupported-compiler");
    d.add(allowed ? Severity::kWarning : Severity::kError, "gcc_too_new",
          "The host compiler is newer than this nvcc accepts.", how, fix);
  } else if (!clang && compiler.major() >= 11 && nvcc.release() < Version(11, 6) && nvcc.release() >= Version(11, 0)) {
    d.error("gcc11_with_old_nvcc",  // case 61
            "This nvcc accepts gcc 11, but cannot parse its standard library (\"parameter packs not expanded with "
            "'...'\").",
            how, use(10));
  }
  check_c_library(d, t);
}

}  // namespace env_check
