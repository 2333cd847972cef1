// What a program does when it cannot go on: memory that is not there, files that cannot be written.
#include <filesystem>
#include <fstream>
#include <new>

#include "common/catch.hpp"
#include "common/error.hpp"
#include "common/host_memory.hpp"
#include "common/program.hpp"
#include "common/step.hpp"

namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / "host_memory_test";
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
  void write(const char* file, const char* text) const {
    fs::create_directories((path / file).parent_path());
    std::ofstream(path / file) << text;
  }
};

// A step whose build() must not be reached.
Step unreachable_step(bool& built) {
  Step step;
  step.number = "00";
  step.title = "test";
  step.shapes = step.small_shapes = {{{1, 1, 1}}};
  step.device_bytes = [](const Shape& s) { return double(s[0]); };
  step.build = [&built](const Shape&, uint64_t) {
    built = true;
    return Problem{};
  };
  return step;
}

int run(const Step& step, std::vector<std::string> arguments) {
  std::string name = "step00";
  std::vector<char*> argv{name.data()};
  for (std::string& a : arguments) argv.push_back(a.data());
  return run_step(step, int(argv.size()), argv.data());
}

}  // namespace

TEST_CASE("host memory: what is available, within the limit of the control group") {
  Folder root;
  CHECK(free_host_bytes(root.path) == 0);
  root.write("proc/meminfo", "MemTotal: 4000 kB\nMemFree: 100 kB\nMemAvailable: 3000 kB\n");
  CHECK(free_host_bytes(root.path) == 3000 * 1024);
  root.write("sys/fs/cgroup/memory.max", "max\n");
  root.write("sys/fs/cgroup/memory.current", "500000\n");
  CHECK(free_host_bytes(root.path) == 3000 * 1024);
  root.write("sys/fs/cgroup/memory.max", "2000000\n");
  CHECK(free_host_bytes(root.path) == 1500000);
  root.write("sys/fs/cgroup/memory.stat", "anon 7\ninactive_file 100000\nactive_file 9\n");
  CHECK(free_host_bytes(root.path) == 1600000);
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "600000\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "700000\n");
  CHECK(free_host_bytes(root.path) == 0);
  CHECK(free_host_bytes() > 0);
}
TEST_CASE("no memory on the host is trouble of the environment, not a failed check") {
  CHECK(run_main([]() -> int { throw std::bad_alloc(); }) == kEnvironment);
  volatile size_t huge = size_t(-1) / 4;
  CHECK(run_main([&]() -> int { return int(std::vector<double>(huge).size()); }) == kEnvironment);
  CHECK(run_main([]() -> int { throw std::runtime_error("wrong"); }) == kCheckFailed);
}
TEST_CASE("a shape that fits the device but not what it is compared with is refused before it is built") {
  bool built = false;
  Step step = unreachable_step(built);
  step.device_bytes = [](const Shape&) { return 0.4 * double(free_device_bytes()); };
  const int status = run(step, {});
  if (device().gpu)
    CHECK(built);  // the host's memory is another one
  else
    CHECK((status == kEnvironment && !built));
}
TEST_CASE("--json: a file that cannot be written is refused before anything runs") {
  bool built = false;
  CHECK(run(unreachable_step(built), {"--json", "/no/such/folder/rows.json"}) == kBadInput);
  CHECK_FALSE(built);
}
