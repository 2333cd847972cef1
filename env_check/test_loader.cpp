// Which libraries a program would load: what loader.cpp says against what the system's own loader says.
#include <algorithm>
#include <chrono>

#include "env_check/child.hpp"
#include "env_check/files.hpp"
#include "env_check/gather.hpp"
#include "env_check/test_harness.hpp"
#include "env_check/test_support.hpp"

using namespace env_check;

namespace {

// "	libcudart.so.12 => /a/libcudart.so.12 (0x00007…)" of a program that is only traced, not run.
std::string by_ld_so(const std::string& program, const std::vector<std::string>& environment, const std::string& name) {
  std::vector<std::string> traced = environment;
  traced.push_back("LD_TRACE_LOADED_OBJECTS=1");
  const std::string text = Child::program({program}, false, traced).finish(std::chrono::seconds(20)).output;
  for (const std::string& line : split(text, '\n'))
    if (starts_with(line, "\t" + name + " (0x")) {  // found in the current folder: no path is printed
      return name;
    } else if (const size_t at = line.find(name + " => "); at != std::string::npos) {
      const std::string rest = line.substr(at + name.size() + 4);
      return rest.substr(0, rest.find(" (0x"));
    }
  return "";
}

Facts gather_without_driver() {
  GatherOptions options;
  options.ask_driver = options.python = false;
  return gather(options);
}

NeededLibrary by_env_check(const std::string& program, const Facts& facts, const std::string& name) {
  for (const NeededLibrary& n : gather_binary(program, facts).needed)
    if (n.name == name) return n;
  return {};
}

}  // namespace

TEST_CASE("env_check finds a program's libraries where the loader does: RPATH, RUNPATH, LD_LIBRARY_PATH, LD_PRELOAD") {
  const std::string name = "libcudart.so.12";
  TemporaryFolder folder;
  const std::string copy = (folder.path / name).string();
  std::filesystem::copy_file(real_path(ENV_CHECK_FAKE_CUDART), copy);
  Facts f;
  f.system.machine = gather_binary(ENV_CHECK_FAKE_RPATH, f).machine;
  const std::string own = real_path(ENV_CHECK_FAKE_CUDART);

  const std::vector<std::string> bare = {"LD_LIBRARY_PATH", "LD_PRELOAD"};
  for (const char* program : {ENV_CHECK_FAKE_RPATH, ENV_CHECK_FAKE_RUNPATH}) {
    INFO(program);
    const NeededLibrary found = by_env_check(program, f, name);
    CHECK(real_path(found.path) == own);
    CHECK(real_path(by_ld_so(program, bare, name)) == own);
    CHECK(found.by.empty());
  }
  CHECK(by_env_check(ENV_CHECK_FAKE_RPATH, f, name).why == "RPATH");
  CHECK(by_env_check(ENV_CHECK_FAKE_RUNPATH, f, name).why == "RUNPATH");

  f.environment["LD_LIBRARY_PATH"] = "/nonexistent:" + folder.path.string();
  const std::vector<std::string> path = {"LD_LIBRARY_PATH=" + f.environment["LD_LIBRARY_PATH"], "LD_PRELOAD"};
  const NeededLibrary with_runpath = by_env_check(ENV_CHECK_FAKE_RUNPATH, f, name);
  CHECK(with_runpath.path == copy);
  CHECK(with_runpath.why == "LD_LIBRARY_PATH");
  CHECK(holds(with_runpath.instead, "(RUNPATH)"));
  CHECK(by_ld_so(ENV_CHECK_FAKE_RUNPATH, path, name) == copy);
  const NeededLibrary with_rpath = by_env_check(ENV_CHECK_FAKE_RPATH, f, name);
  CHECK(with_rpath.why == "RPATH");
  CHECK(real_path(with_rpath.path) == real_path(by_ld_so(ENV_CHECK_FAKE_RPATH, path, name)));

  f.environment.clear();
  f.environment["LD_PRELOAD"] = copy;
  CHECK(by_env_check(ENV_CHECK_FAKE_RPATH, f, name).why == "LD_PRELOAD");
}

TEST_CASE("env_check follows a program's own libraries to the CUDA libraries they need, and the runtime to libcuda") {
  Facts f;
  f.system.machine = gather_binary(ENV_CHECK_FAKE_RPATH, f).machine;
  const NeededLibrary driver = by_env_check(ENV_CHECK_FAKE_RUNPATH, f, "libcuda.so.1");
  CHECK(driver.name == "libcuda.so.1");
  CHECK(holds(driver.by, "the CUDA runtime"));
  Library cached;
  cached.name = "libcuda.so.1", cached.where = "cache", cached.path = ENV_CHECK_FAKE_DRIVER "/libcuda.so.1";
  f.libraries = {cached};
  CHECK(by_env_check(ENV_CHECK_FAKE_RUNPATH, f, "libcuda.so.1").why == "cache");
  CHECK(gather_binary("/nonexistent", f).error == "No such file or directory");
  CHECK(gather_binary("/proc/self/exe", f).needed.empty());  // this test needs none of CUDA's
}

TEST_CASE("env_check finds a program's libraries where the loader does: links, variants, odd paths") {
  const std::string name = "libcudart.so.12";
  TemporaryFolder folder;
  const std::string here = folder.path.string();
  const auto copy = [&](const std::string& from, const std::string& to) {
    std::filesystem::create_directories((folder.path / to).parent_path());
    std::filesystem::copy_file(real_path(from), folder.path / to);
    return here + "/" + to;
  };
  Facts f = gather_without_driver();
  const auto same = [&](const std::string& program, const std::string& path) {
    f.environment.clear();
    std::vector<std::string> environment = {"LD_LIBRARY_PATH", "LD_PRELOAD"};
    if (!path.empty()) {
      f.environment["LD_LIBRARY_PATH"] = path;
      environment[0] = "LD_LIBRARY_PATH=" + path;
    }
    const std::string ours = by_env_check(program, f, name).path, theirs = by_ld_so(program, environment, name);
    INFO(program << " with \"" << path << "\": " << ours << ", ld.so: " << theirs);
    CHECK_FALSE(theirs.empty());
    CHECK(real_path(ours) == real_path(theirs));
    return ours;
  };
  const std::string plain = copy(ENV_CHECK_FAKE_CUDART, "plain/" + name);
  copy(ENV_CHECK_FAKE_CUDART, "variants/" + name);
  const std::string second = copy(ENV_CHECK_FAKE_CUDART, "variants/glibc-hwcaps/x86-64-v2/" + name);
  const std::string chosen = same(ENV_CHECK_FAKE_RUNPATH, here + "/variants");
  const auto& caps = f.system.hwcaps;
  if (std::find(caps.begin(), caps.end(), "x86-64-v2") != caps.end()) CHECK(chosen == second);
  CHECK(same(ENV_CHECK_FAKE_RUNPATH, "/nonexistent;" + here + "/plain") == plain);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path / "plain");  // an empty entry is the current folder
  same(ENV_CHECK_FAKE_RUNPATH, ":/nonexistent");
  std::filesystem::current_path(before);

  // $ORIGIN of a program that is started through a link is the folder of the program itself.
  copy(ENV_CHECK_FAKE_CUDART, "app/lib/" + name);
  copy(ENV_CHECK_FAKE_MIDDLE, "app/lib/libenv_check_fake_middle.so");
  copy(ENV_CHECK_FAKE_ORIGIN, "app/bin/program");
  std::filesystem::create_directory(folder.path / "bin");
  std::filesystem::create_symlink("../app/bin/program", folder.path / "bin/program");
  CHECK(same(here + "/bin/program", "") != "");
}
