// What gather() learns of toolkits (from scripts that answer as an nvcc would), of the processor and of ldconfig's list.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "env_check/child.hpp"
#include "env_check/files.hpp"
#include "env_check/gather_parts.hpp"
#include "env_check/tables.hpp"
#include "env_check/test_harness.hpp"
#include "env_check/test_support.hpp"

using namespace env_check;
using nlohmann::json;

namespace {

const char kAnswer[] = "echo 'Cuda compilation tools, release 12.9, V12.9.86'\n";

Facts gather_in(const TemporaryFolder& machine) {
  GatherOptions options;
  options.root = machine.path.string();
  options.ask_driver = options.python = false;
  return gather(options);
}

const Toolkit* toolkit_in(const Facts& f, const std::filesystem::path& folder) {
  for (const Toolkit& t : f.toolkits)
    if (starts_with(t.nvcc, folder.string())) return &t;
  return nullptr;
}

}  // namespace

TEST_CASE("env_check finds the toolkit inside NVIDIA's HPC SDK, and the one that pip put into a virtual environment") {
  TemporaryFolder m;
  m.program("opt/nvidia/hpc_sdk/Linux_x86_64/25.7/cuda/12.9/bin/nvcc", kAnswer);
  const Facts f = gather_in(m);
  const Toolkit* t = toolkit_in(f, m.path);
  REQUIRE(t != nullptr);
  CHECK(t->version == "12.9.86");
  CHECK(t->from == "HPC SDK");

  m.program("venv/lib/python3.12/site-packages/nvidia/cu13/bin/nvcc", kAnswer);
  const Child::Outcome said =
      Child::program({ENV_CHECK_PROGRAM, "--json", "--no-python"}, false, {"VIRTUAL_ENV=" + m.path.string() + "/venv"})
          .finish(std::chrono::seconds(60));
  const json report = json::parse(said.output);
  bool found = false;
  for (const json& toolkit : report["toolkits"]) found = found || toolkit["from"] == "pip";
  CHECK(found);
}

TEST_CASE(
    "env_check reads in a toolkit's header whether it goes with newer C libraries, and what its nvcc is made for") {
  TemporaryFolder m;
  const auto toolkit = [&](const std::string& name, const std::string& header) {
    m.program("usr/local/cuda-" + name + "/bin/nvcc", kAnswer);
    m.write("usr/local/cuda-" + name + "/include/crt/math_functions.h", header);
  };
  toolkit("1.0", "extern double sincospi(double x, double* p);\nextern double cospi(double x);\n");
  toolkit("2.0", "extern double  cospi(double x) noexcept;\nextern double   rsqrt(double x);\n");
  toolkit("3.0", "extern double cospi(double x) throw();\nextern double rsqrt(double x) _NV_RSQRT_SPECIFIER;\n");
  std::string arm(64, '\0');
  arm.replace(0, 20,
              std::string("\x7f"
                          "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0",
                          20));
  std::filesystem::permissions(m.write("usr/local/cuda-4.0/bin/nvcc", arm), std::filesystem::perms::owner_all);
  const Facts f = gather_in(m);
  const auto of = [&](const char* name) {
    const Toolkit* t = toolkit_in(f, m.path / "usr/local" / name);
    REQUIRE(t != nullptr);
    return *t;
  };
  CHECK(of("cuda-1.0").cospi_guarded == false);
  CHECK_FALSE(of("cuda-1.0").rsqrt_guarded.has_value());
  CHECK(of("cuda-2.0").cospi_guarded == true);
  CHECK(of("cuda-2.0").rsqrt_guarded == false);
  CHECK(of("cuda-3.0").rsqrt_guarded == true);
  CHECK(of("cuda-3.0").machine.empty());  // a script
  CHECK(of("cuda-4.0").machine == "aarch64");
  if (f.system.machine != "aarch64") CHECK(of("cuda-4.0").version.empty());
}

TEST_CASE("env_check knows which variants of a library this processor gets") {
  const auto levels = [](const std::string& flags) {
    TemporaryFolder m;
    m.write("proc/cpuinfo", "processor : 0\nflags\t\t: fpu " + flags + "\nbugs : none\n");
    return gather_in(m).system.hwcaps;
  };
  const std::string v2 = "pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm";
  const std::string v3 = v2 + " fma movbe xsave avx f16c abm bmi1 avx2 bmi2";
  using Names = std::vector<std::string>;
  if (Version(gather_in(TemporaryFolder()).system.glibc) < Version(2, 33)) return CHECK(levels(v3).empty());
  CHECK(levels("sse2").empty());
  CHECK(levels(v2) == Names{"x86-64-v2"});
  CHECK(levels(v3) == Names{"x86-64-v3", "x86-64-v2"});
  CHECK(levels(v3 + " avx512f avx512bw avx512cd avx512dq avx512vl").size() == 3);

  const std::string list =
      "3 libs found in cache\n"
      "\tliba.so.1 (libc6,x86-64, hwcap: \"x86-64-v4\") => /l/glibc-hwcaps/x86-64-v4/liba.so.1\n"
      "\tliba.so.1 (libc6,x86-64) => /l/liba.so.1\n"
      "\tliba.so.1 (libc6,x86-64, hwcap: \"x86-64-v2\") => /l/glibc-hwcaps/x86-64-v2/liba.so.1\n"
      "\tliba.so.1 (libc6,x86-64, hwcap: \"x86-64-v3\") => /l/glibc-hwcaps/x86-64-v3/liba.so.1\n";
  CHECK(cached_libraries(list, {"x86-64-v3", "x86-64-v2"}) ==
        Names{"/l/glibc-hwcaps/x86-64-v3/liba.so.1", "/l/glibc-hwcaps/x86-64-v2/liba.so.1", "/l/liba.so.1"});
  CHECK(cached_libraries(list, {}) == Names{"/l/liba.so.1"});
}
