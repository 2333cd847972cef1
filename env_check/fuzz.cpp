// libFuzzer's entry: every parser of env_check, fed with bytes that may be anything. The first byte picks the parser.
//
//   cmake -S env_check -B build-fuzz -DFUZZ=ON -DCMAKE_CXX_COMPILER=clang++ && cmake --build build-fuzz
//   build-fuzz/bin/env_check_fuzz -max_len=8192 -max_total_time=600 a_new_folder env_check/corpus
//
// The tests replay env_check/corpus through the same function.
#include "env_check/fuzz.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "common/error.hpp"
#include "env_check/diagnose.hpp"
#include "env_check/gather_parts.hpp"
#include "env_check/options.hpp"
#include "env_check/redact.hpp"
#include "env_check/report.hpp"
#include "env_check/test_support.hpp"

namespace env_check {
namespace {

using nlohmann::json;

void report(const Facts& facts) {
  const auto findings = diagnose(facts);
  ReportStyle style;
  style.verbose = true;
  text_report(facts, findings, style);
  json_report(facts, findings).dump(-1, ' ', true, json::error_handler_t::replace);
  redacted(to_json(facts), {"alice", "box.example", "/home/alice", "/vol1/alice"})
      .dump(-1, ' ', true, json::error_handler_t::replace);
}

void facts_file(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return;
  try {
    report(facts_from_json(parsed, "fuzz"));
  } catch (const BadInput&) {  // the one thing that a bad file may cause
  }
}

void program_file(const std::string& bytes) {
  const int fd = memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) {
    Facts facts;
    facts.system.machine = "x86_64";
    facts.binaries.push_back(gather_binary(fmt::format("/proc/self/fd/{}", fd), facts));
    report(facts);
  }
  close(fd);
}

// The second byte picks one of the files that gather() reads; the rest is its text.
void machine_file(const std::string& input) {
  static const char* const names[] = {"proc/sys/kernel/osrelease",
                                      "proc/driver/nvidia/version",
                                      "proc/driver/nvidia/params",
                                      "proc/cmdline",
                                      "proc/1/environ",
                                      "proc/1/cgroup",
                                      "proc/self/status",
                                      "proc/self/mountinfo",
                                      "etc/nv_tegra_release",
                                      "etc/os-release",
                                      "etc/modprobe.d/x.conf",
                                      "etc/docker/daemon.json",
                                      "etc/cdi/x.yaml",
                                      "etc/prime-discrete",
                                      "sys/bus/pci/devices/0000:01:00.0/class",
                                      "sys/bus/pci/devices/0000:01:00.0/device",
                                      "sys/bus/pci/devices/0000:01:00.0/config",
                                      "sys/bus/pci/devices/0000:01:00.0/resource",
                                      "sys/module/nvidia/version",
                                      "lib/modules/6.8/modules.dep",
                                      "var/lib/dpkg/status",
                                      "dev/kmsg",
                                      "usr/lib/x86_64-linux-gnu/libcuda.so.1"};
  if (input.empty()) return;
  static const TemporaryFolder machine;
  static const std::string vendor = machine.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  const std::string file =
      machine.write(names[static_cast<unsigned char>(input[0]) % std::size(names)], input.substr(1));
  GatherOptions options;
  options.root = machine.path.string();
  Facts facts;
  gather_system(facts, options);
  gather_module(facts, options);
  gather_pci(facts, options);
  gather_libraries(facts, options);
  gather_containers(facts, options);
  facts.driver.state = "answered";
  facts.driver.init_result = 100;
  std::filesystem::remove(file);
  report(facts);
}

void answers(const std::string& text) {
  Facts facts;
  gather_python(facts, text);
  gather_toolkit_answers(facts, text);
  cached_libraries(text, {"x86-64-v3", "x86-64-v2"});
  report(facts);
  try {
    std::vector<std::string> words;
    std::istringstream in(text);
    for (std::string word; in >> word;) words.push_back(word);
    parse_options(words);
  } catch (const BadInput&) {
  }
}

}  // namespace

void fuzz_one(const std::string& input) {
  if (input.empty()) return;
  const std::string rest = input.substr(1);
  switch (static_cast<unsigned char>(input[0]) % 4) {
    case 0:
      return program_file(rest);
    case 1:
      return facts_file(rest);
    case 2:
      return machine_file(rest);
    default:
      return answers(rest);
  }
}

}  // namespace env_check

#ifdef LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  env_check::fuzz_one(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
#endif
