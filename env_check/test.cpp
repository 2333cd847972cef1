// The tables, the rules of compatibility, the JSON of facts, the report, and what gather() makes of a strange machine.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "common/catch.hpp"
#include "common/error.hpp"
#include "env_check/child.hpp"
#include "env_check/compatibility.hpp"
#include "env_check/diagnose.hpp"
#include "env_check/gather.hpp"
#include "env_check/report.hpp"
#include "env_check/tables.hpp"

using namespace env_check;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// A folder that is gone when the test ends.
struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "env_check_XXXXXX").string();
    if (mkdtemp(name.data())) path = name;
  }
  ~TemporaryFolder() {
    std::error_code error;
    if (!path.empty()) fs::remove_all(path, error);
  }
  std::string write(const std::string& name, const std::string& text) const {
    const fs::path file = path.string() + "/" + name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }
};

std::string bad_input(const std::string& text) {
  TemporaryFolder folder;
  try {
    load_facts(folder.write("facts.json", text));
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

DeviceCode cubin(int arch, const char* suffix = "") { return {"cubin", arch, suffix, 0, 0, 1}; }
DeviceCode ptx(int arch, int major, int minor, const char* suffix = "") {
  return {"ptx", arch, suffix, major, minor, 1};
}

}  // namespace

TEST_CASE("env_check versions compare by number", "[env_check]") {
  CHECK(Version("12.4.127") < Version("12.10"));
  CHECK(Version("580") == Version("580.0.0"));
  CHECK(Version("580.95.05") > Version("580.65.06"));
  CHECK(Version("13.0.88").release() == Version(13, 0));
  CHECK_FALSE(Version("").known());
  CHECK_FALSE(Version("abc").known());
  CHECK(Version("99999999999999999999.1").major() == 2147483647);
  CHECK(Version("12.4-rc1").text() == "12.4");
  CHECK(cuda_version(12040) == Version(12, 4));
}

TEST_CASE("env_check tables answer for known toolkits, cards and drivers", "[env_check]") {
  CHECK(driver_for_toolkit(Version(12, 4), false) == "550.54.14");
  CHECK(driver_for_toolkit(Version(12, 4), true) == "551.61");
  CHECK(driver_for_toolkit(Version(12, 7), false).empty());
  CHECK(oldest_driver_for_major(13, false) == "580.65.06");
  CHECK(cuda_of_driver(Version("580.159.04")) == Version(13, 0));
  CHECK(cuda_of_driver(Version("470.57.02")) == Version(11, 4));
  CHECK_FALSE(cuda_of_driver(Version("390.1")).known());
  CHECK(cuda_of_ptx(Version(8, 0)) == Version(12, 0));
  CHECK(cuda_of_ptx(Version(99, 0)) > Version(13, 3));

  REQUIRE(archs_of_nvcc(Version("13.0.88")));
  CHECK(archs_of_nvcc(Version("13.0.88"))->lowest() == 75);
  CHECK(archs_of_nvcc(Version("12.6.20"))->highest() == 90);
  CHECK(archs_of_nvcc(Version("12.8"))->newest_below(103) == 101);
  CHECK_FALSE(archs_of_nvcc(Version("10.2")));
  CHECK(archs_of_nvcc(Version("14.0"))->beyond_table);
  CHECK_FALSE(archs_of_nvcc(Version("13.0.999"))->beyond_table);
  CHECK(first_nvcc_for(86) == Version(11, 1));
  CHECK(first_nvcc_for(120) == Version(12, 8));
  CHECK(first_nvcc_for(90) == Version(11, 8));
  CHECK(last_nvcc_for(61) == Version(12, 9));
  CHECK(last_nvcc_for(37) == Version(11, 8));
  CHECK_FALSE(last_nvcc_for(75).known());

  REQUIRE(compiler_limit(Version("12.2.140")));
  CHECK(compiler_limit(Version("12.2.140"))->gcc == 12);
  CHECK(compiler_limit(Version("12.7"))->gcc == 13);  // no row: the one before
  CHECK_FALSE(compiler_limit(Version("9.1")));
}

TEST_CASE("env_check knows cards by PCI id, the narrowest range first", "[env_check]") {
  CHECK(arch_of_pci(0x2335) == 90);  // H200, inside the range of the RTX 30
  CHECK(arch_of_pci(0x2504) == 86);
  CHECK(arch_of_pci(0x20b5) == 80);  // A100, inside the range of Turing
  CHECK(arch_of_pci(0x1eb8) == 75);  // T4
  CHECK(arch_of_pci(0x15f8) == 60);  // P100, inside Maxwell's
  CHECK(arch_of_pci(0x2b85) == 120);
  CHECK_FALSE(arch_of_pci(0x0000));
  CHECK_FALSE(arch_of_pci(0xffff));
  CHECK_FALSE(cards_of_arch(86).empty());
  CHECK(cards_of_arch(1).empty());
  CHECK(error_code(209).name == "cudaErrorNoKernelImageForDevice");
  CHECK(error_code(-5).name == "error -5");
}

TEST_CASE("env_check: which code runs on which card", "[env_check]") {
  CHECK(fits(cubin(80), 86));
  CHECK(fits(cubin(80), 89));
  CHECK_FALSE(fits(cubin(86), 80));
  CHECK_FALSE(fits(cubin(89), 90));
  CHECK_FALSE(fits(cubin(100), 120));
  CHECK(fits(cubin(90, "a"), 90));
  CHECK_FALSE(fits(cubin(100, "a"), 103));
  CHECK(fits(cubin(100, "f"), 103));
  CHECK_FALSE(fits(cubin(103, "f"), 100));
  CHECK_FALSE(fits(cubin(100, "f"), 110));
  CHECK(fits(ptx(80, 8, 0), 120));
  CHECK_FALSE(fits(ptx(90, 8, 0), 86));
  CHECK_FALSE(fits(ptx(90, 8, 0, "a"), 100));
  CHECK(fits(ptx(120, 8, 8, "f"), 121));
  CHECK_FALSE(fits(ptx(100, 8, 8, "f"), 120));
}

TEST_CASE("env_check: the best of several kinds of code", "[env_check]") {
  const Version driver(12, 4);
  CHECK(best_fit({ptx(80, 8, 0), cubin(80)}, 86, driver).fit == Fit::kRuns);
  CHECK(best_fit({cubin(80), cubin(86)}, 86, driver).code.arch == 86);
  CHECK(best_fit({cubin(80), ptx(80, 8, 0)}, 90, driver).fit == Fit::kJit);
  CHECK(best_fit({ptx(80, 8, 7)}, 90, driver).fit == Fit::kPtxTooNew);
  CHECK(best_fit({ptx(80, 8, 7), ptx(75, 8, 0)}, 90, driver).fit == Fit::kJit);
  CHECK(best_fit({ptx(80, 8, 7)}, 90, Version()).fit == Fit::kJit);
  CHECK(best_fit({cubin(80)}, 90, driver).fit == Fit::kNoCode);
  CHECK_FALSE(best_fit({cubin(80)}, 90, driver).only_specific);
  CHECK(best_fit({cubin(90, "a")}, 120, driver).only_specific);
  CHECK(best_fit({}, 90, driver).fit == Fit::kNoCode);
}

TEST_CASE("env_check names the architectures to build for", "[env_check]") {
  Facts f;
  CHECK(cuda_architectures(f).empty());
  Toolkit t;
  t.version = "12.8.61";
  t.from = "PATH";
  f.toolkits = {t};
  CudaDevice d;
  const auto with = [&](std::vector<std::pair<int, int>> cards) {
    f.driver.devices.clear();
    for (auto [major, minor] : cards) {
      d.major = major, d.minor = minor;
      f.driver.devices.push_back(d);
    }
    return cuda_architectures(f);
  };
  CHECK(with({{8, 6}}) == "86");
  CHECK(with({{9, 0}, {8, 0}, {9, 0}}) == "80;90a");
  CHECK(with({{12, 0}, {8, 6}}) == "86;120");
  CHECK(with({{12, 1}}) == "120-virtual");
  CHECK(with({{2, 0}}).empty());
  f.toolkits[0].version = "11.8.89";
  CHECK(with({{9, 0}}) == "90");
}

TEST_CASE("env_check facts survive the way through JSON", "[env_check]") {
  Facts f;
  f.system.kernel = "6.8.0";
  f.system.address_limit = int64_t{1} << 40;
  f.system.secure_boot = true;
  f.module.open = false;
  f.environment["LD_LIBRARY_PATH"] = "/a:/b";
  f.environment["CUDA_VISIBLE_DEVICES"] = "";
  f.driver.state = "answered";
  f.driver.init_result = 100;
  f.driver.devices.push_back({"card", 9, 0, "GPU-1", "0000:01:00.0", 0, std::nullopt});
  f.binaries.push_back({"./a", "", "x86_64", 64, {cubin(80), ptx(80, 9, 0)}, {{"libcudart.so.13", "", ""}}});
  const json once = to_json(f);
  const Facts back = facts_from_json(once, "test");
  CHECK(to_json(back) == once);
  CHECK(back.system.address_limit == int64_t{1} << 40);
  CHECK(back.module.open == false);
  CHECK_FALSE(back.module.kernel_headers);
  CHECK(back.driver.devices[0].major == 9);
  REQUIRE(back.env("CUDA_VISIBLE_DEVICES"));
  CHECK(back.env("CUDA_HOME") == nullptr);
}

TEST_CASE("env_check refuses absurd facts files with one line", "[env_check]") {
  CHECK_THAT(bad_input(""), Catch::Matchers::ContainsSubstring("nothing to read"));
  CHECK_THAT(bad_input("not json"), Catch::Matchers::ContainsSubstring("expected JSON"));
  CHECK_THAT(bad_input("{\"system\": {"), Catch::Matchers::ContainsSubstring("expected JSON"));
  CHECK_THAT(bad_input("[]"), Catch::Matchers::ContainsSubstring("expected an object, found array"));
  CHECK_THAT(bad_input("null"), Catch::Matchers::ContainsSubstring("expected an object"));
  CHECK_THAT(bad_input("{\"system\": 5}"),
             Catch::Matchers::ContainsSubstring("'system': expected an object, found number 5"));
  CHECK_THAT(bad_input("{\"system\": {\"wsl\": \"yes\"}}"),
             Catch::Matchers::ContainsSubstring("'system.wsl': expected true or false"));
  CHECK_THAT(bad_input("{\"pci\": [{\"device_id\": 1e300}]}"),
             Catch::Matchers::ContainsSubstring("'pci[0].device_id': expected a whole number"));
  CHECK_THAT(bad_input("{\"pci\": [{\"device_id\": 18446744073709551615}]}"),
             Catch::Matchers::ContainsSubstring("expected a whole number"));
  CHECK_THAT(bad_input("{\"pci\": [{\"device_id\": -9223372036854775808}]}"),
             Catch::Matchers::ContainsSubstring("expected a whole number"));
  CHECK_THAT(bad_input("{\"pci\": [{\"device_id\": true}]}"),
             Catch::Matchers::ContainsSubstring("expected a whole number"));
  CHECK_THAT(bad_input("{\"environment\": {\"A\": 1}}"),
             Catch::Matchers::ContainsSubstring("'environment.A': expected a string"));
  CHECK_THAT(bad_input("{\"schema\": 2}"), Catch::Matchers::ContainsSubstring("'schema': expected 1"));
  CHECK_THAT(bad_input(std::string("\xff\xfe\x00", 3)), Catch::Matchers::ContainsSubstring("expected JSON"));
  CHECK_THAT(bad_input(std::string(17 << 20, ' ')), Catch::Matchers::ContainsSubstring("more than 16 MiB"));
  CHECK_THROWS_AS(load_facts("/nonexistent/facts.json"), BadInput);
  CHECK_THROWS_AS(load_facts("/"), BadInput);
  // The message is one line even if the file's own text is not.
  CHECK(bad_input("{\"system\": \"a\\nb\"}").find('\n') == std::string::npos);
}

TEST_CASE("env_check: deeply nested facts neither crash nor pass", "[env_check]") {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  CHECK_FALSE(bad_input(deep).empty());
  CHECK_FALSE(bad_input("{\"system\": " + deep + "}").empty());
}

TEST_CASE("env_check takes facts with missing and unknown keys", "[env_check]") {
  const Facts f = facts_from_json(
      json::parse(R"({"driver": {"state": "answered"}, "from_the_future": {"x": 1}, "module": {"open": null}})"),
      "test");
  CHECK(f.driver.state == "answered");
  CHECK_FALSE(f.module.open);
  CHECK(diagnose(Facts()).size() >= 1);
  CHECK(diagnose(Facts())[0].id == "driver_not_asked");
}

TEST_CASE("env_check diagnoses facts with extreme values without crashing", "[env_check]") {
  json base = to_json(Facts());
  base["driver"] = {
      {"state", "answered"},
      {"init_result", 0},
      {"count_result", 0},
      {"count", 2147483647},
      {"version", -2147483647 - 1},
      {"devices", {{{"name", "x"}, {"major", 2147483647}, {"minor", -1}}, {{"name", ""}, {"major", 0}, {"minor", 0}}}}};
  base["toolkits"] = {{{"version", "999999999999.99999999999"}, {"nvcc", "nvcc"}, {"from", "PATH"}},
                      {{"version", ""}, {"nvcc", ""}}};
  base["pci"] = {{{"device_id", -1}, {"class_id", -1}}, {{"device_id", 2147483647}}};
  base["binaries"] = {
      {{"path", ""},
       {"code", {{{"kind", "x"}, {"arch", 2147483647}}, {{"kind", "ptx"}, {"arch", -5}, {"isa_major", -1}}}},
       {"needed", {{{"name", "libcudart.so."}}}}}};
  base["environment"] = {{"CUDA_VISIBLE_DEVICES", ",,, ,"},
                         {"CUDAARCHS", ";-;f;9999999999999;native-real"},
                         {"NVIDIA_REQUIRE_CUDA", "cuda>="},
                         {"CUDA_HOME", ""},
                         {"NVCC_CCBIN", ""}};
  base["compiler"] = {{"version", "-3"}, {"path", "g++"}};
  base["module"] = {{"loaded", true}, {"version", "...."}};
  base["libraries"] = {{{"name", "libcudart.so."}, {"path", "x"}, {"where", "LD_LIBRARY_PATH"}},
                       {{"name", "libcuda.so.1"}, {"real", ".so."}}};
  for (const char* state : {"answered", "not_loaded", "timeout", "crashed", "?"})
    for (const char* container : {"", "docker", "lxc"})
      for (const bool wsl : {false, true}) {
        base["driver"]["state"] = state;
        base["system"]["container"] = container;
        base["system"]["wsl"] = wsl;
        const Facts f = facts_from_json(base, "test");
        const auto findings = diagnose(f);
        CHECK_FALSE(findings.empty());
        CHECK_FALSE(text_report(f, findings).empty());
        CHECK(json_report(f, findings)["verdict"] == "trouble");
      }
}

TEST_CASE("env_check saves no names and no home folders", "[env_check]") {
  const Identity id{"alice", "alicebox", "/home/alice"};
  Facts f;
  f.environment["LD_LIBRARY_PATH"] = "/home/alice/cuda/lib64:/home/bob/x:/mnt/c/Users/Alice W/y:/data/alice/z";
  f.environment["CUDA_HOME"] = "/home/alice";
  f.driver.error = "on alicebox: cannot open /home/alicexander/lib";
  f.toolkits.push_back({});
  f.toolkits[0].root = "/scratch/alice.old/cuda";
  f.toolkits[0].nvcc = "/opt/malice/nvcc";
  const std::string text = redacted(to_json(f), id).dump();
  CHECK(text.find("bob") == std::string::npos);
  CHECK(text.find("Alice W") == std::string::npos);
  CHECK(text.find("alicebox") == std::string::npos);
  CHECK(text.find("/alice") == std::string::npos);
  CHECK(text.find("alicexander") == std::string::npos);
  CHECK(text.find("~/cuda/lib64") != std::string::npos);
  CHECK(text.find("/opt/malice/nvcc") != std::string::npos);
  CHECK(text.find("\"schema\":1") != std::string::npos);
}

TEST_CASE("env_check: a user called like an ordinary word does not garble the facts", "[env_check]") {
  Facts f;
  f.driver.path = "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1";
  const json out = redacted(to_json(f), {"nvidia", "ubuntu", "/home/nvidia"});
  CHECK(out["driver"]["path"] == "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1");
}

TEST_CASE("env_check report: verdict first, worst finding first, JSON schema", "[env_check]") {
  Facts f;
  f.driver.state = "answered";
  const std::vector<Finding> findings = {{"a_note", Severity::kNote, "n", {}, {}}};
  CHECK(healthy(findings));
  CHECK(verdict_line(f, findings).rfind("HEALTHY: ", 0) == 0);
  const std::vector<Finding> trouble = {{"bad", Severity::kError, "It is\x1b[31m bad\n.", {"seen"}, {"fix it"}},
                                        {"hm", Severity::kWarning, "w", {}, {}}};
  CHECK_FALSE(healthy(trouble));
  const std::string text = text_report(f, trouble);
  CHECK(text.rfind("TROUBLE: It is", 0) == 0);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("(1 error, 1 warning)") != std::string::npos);
  CHECK(text.find("fix   fix it") != std::string::npos);
  ReportStyle colour;
  colour.colour = true;
  CHECK(text_report(f, trouble, colour).find("\x1b[1;31m") != std::string::npos);
  ReportStyle verbose;
  verbose.verbose = true;
  CHECK(text_report(f, trouble, verbose).size() > text.size() + 500);

  const json j = json_report(f, trouble);
  CHECK(j["schema"] == 1);
  CHECK(j["verdict"] == "trouble");
  CHECK(
      j["findings"][0] ==
      json({{"id", "bad"}, {"severity", "error"}, {"what", trouble[0].what}, {"how", {"seen"}}, {"fix", {"fix it"}}}));
  CHECK(j["findings"][1]["severity"] == "warning");
  for (const char* key : {"summary", "driver", "cuda_architectures", "nvcc", "cards", "programs", "facts"})
    CHECK(j.contains(key));
  CHECK(to_json(facts_from_json(j["facts"], "test")) == j["facts"]);
}

TEST_CASE("env_check child: output, exit status, crash, time limit", "[env_check]") {
  using namespace std::chrono_literals;
  const auto said = Child([](int out) { CHECK(write(out, "hello", 5) == 5); }).finish(5s);
  CHECK(said.output == "hello");
  CHECK(said.exit_code == 0);
  CHECK(Child([](int) { abort(); }).finish(5s).crashed);
  CHECK(Child([](int) { throw 1; }).finish(5s).exit_code == 70);
  CHECK(Child::program({"/nonexistent"}).finish(5s).exit_code == 127);
  CHECK(output_of({"/bin/echo", "a b"}, 5s) == "a b\n");
  CHECK(output_of({"/bin/false"}, 5s).empty());
  CHECK(Child::program({"/bin/sh", "-c", "echo $ENV_CHECK_X"}, false, {"ENV_CHECK_X=7"}).finish(5s).output == "7\n");
  const auto start = std::chrono::steady_clock::now();
  const auto slow = Child([](int out) {
                      if (write(out, "before", 6) != 6) _exit(1);
                      sleep(60);
                    }).finish(200ms);
  CHECK(slow.timed_out);
  CHECK(slow.output == "before");
  // A child that closes its output and lives on must not hold us up either, nor one that never stops writing.
  CHECK(Child([](int out) {
          close(out);
          sleep(60);
        })
            .finish(5s)
            .timed_out);
  CHECK(Child::program({"/bin/sh", "-c", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"})
            .finish(20s)
            .timed_out);
  CHECK(std::chrono::steady_clock::now() - start < 15s);
}

TEST_CASE("env_check gathers this machine quickly and without an error", "[env_check]") {
  const auto start = std::chrono::steady_clock::now();
  const Facts f = gather();
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(25));
  CHECK_FALSE(f.system.kernel.empty());
  CHECK_FALSE(f.driver.state.empty());
  CHECK_FALSE(f.nvml.state.empty());
  CHECK(to_json(facts_from_json(to_json(f), "gathered")) == to_json(f));
  CHECK_FALSE(text_report(f, diagnose(f)).empty());
}

TEST_CASE("env_check gathers a made-up machine from its files", "[env_check]") {
  TemporaryFolder m;
  m.write("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
  m.write(
      "proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs)\nGCC version: 12\n");
  m.write("proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n");
  m.write("proc/devices", "Character devices:\n195 nvidia\n238 nvidia-uvm\n\nBlock devices:\n");
  m.write("proc/cmdline", "quiet firmware_class.path=/etc/firmware\n");
  m.write("proc/1234/comm", "nv-fabricmanage\n");
  m.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  m.write("sys/bus/pci/devices/0000:01:00.0/device", "0x2335\n");
  m.write("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  m.write("sys/bus/pci/devices/0000:01:00.0/config", std::string(64, '\xff'));
  m.write("sys/bus/pci/devices/0000:01:00.0/resource",
          "0x00000000f6000000 0x00000000f6ffffff 0x0\n0x0000000000000000 0x0 0x0\n");
  m.write("sys/bus/pci/devices/0000:02:00.0/vendor", "0x8086\n");
  m.write("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", std::string("\x06\0\0\0\x01", 5));
  m.write("sys/power/suspend_stats/success", "4\n");
  m.write("lib/modules/6.8.0-45-generic/modules.dep", "kernel/x.ko:\n");
  m.write("lib/modules/6.8.0-44-generic/modules.dep", "updates/dkms/nvidia.ko.zst:\n");
  m.write("etc/os-release", "ID=ubuntu\nVERSION_ID=\"24.04\"\n");
  m.write("etc/cdi/nvidia.yaml", "- hostPath: /usr/lib/libcuda.so.570.86.10\n");
  m.write("var/lib/dpkg/info/libnvidia-compute-535:amd64.list", "");
  m.write("usr/local/nvidia/lib64/libcuda.so.1", "no library");
  m.write("dev/nvidiactl", "");
  fs::create_symlink("/nowhere", m.path / "usr/local/cuda");
  GatherOptions options;
  options.root = m.path.string();
  options.ask_driver = false;
  const Facts f = gather(options);
  CHECK(f.system.kernel == "6.8.0-45-generic");
  CHECK(f.system.distribution == "ubuntu 24.04");
  CHECK(f.system.secure_boot == true);
  CHECK(f.system.suspends == 4);
  CHECK(f.system.fabric_manager);
  CHECK(f.system.firmware_path_missing);
  CHECK(f.module.version == "580.159.04");
  CHECK(f.module.open == true);
  CHECK(f.module.profiling_admin_only == true);
  CHECK_FALSE(f.module.on_disk);
  CHECK(f.module.on_disk_other == std::vector<std::string>{"6.8.0-44-generic"});
  CHECK(f.module.packages == std::vector<std::string>{"libnvidia-compute-535"});
  REQUIRE(f.pci.size() == 1);
  CHECK(f.pci[0].device_id == 0x2335);
  CHECK(f.pci[0].config_dead);
  CHECK(f.pci[0].bar1_unassigned == true);
  CHECK(f.containers.cdi_versions == std::vector<std::string>{"570.86.10"});
  CHECK(f.usr_local_cuda == "dangling");
  REQUIRE(f.nodes.size() == 1);
  CHECK(f.nodes[0].path == "/dev/nvidiactl");
  CHECK(f.driver.state.empty());
}

TEST_CASE("env_check: unreadable, absurd and endless files in /proc, /sys and /dev", "[env_check]") {
  std::mt19937 random(7);
  const char* names[] = {"proc/sys/kernel/osrelease",
                         "proc/driver/nvidia/version",
                         "proc/driver/nvidia/params",
                         "proc/devices",
                         "proc/cmdline",
                         "proc/1/environ",
                         "proc/1/cgroup",
                         "proc/self/status",
                         "proc/self/mountinfo",
                         "proc/77/comm",
                         "sys/bus/pci/devices/0000:01:00.0/class",
                         "sys/bus/pci/devices/0000:01:00.0/device",
                         "sys/bus/pci/devices/0000:01:00.0/config",
                         "sys/bus/pci/devices/0000:01:00.0/resource",
                         "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
                         "sys/power/suspend_stats/success",
                         "sys/module/nvidia/version",
                         "etc/os-release",
                         "etc/cdi/x.json",
                         "etc/docker/daemon.json",
                         "run/systemd/container",
                         "etc/ld.so.conf.d/x.conf",
                         "usr/local/cuda-13.0/include/crt/host_config.h",
                         "usr/lib/x86_64-linux-gnu/libcuda.so.1"};
  for (int round = 0; round < 12; ++round) {
    TemporaryFolder m;
    m.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    for (const char* name : names) {
      std::string text(std::uniform_int_distribution<size_t>(0, round == 0 ? 200000 : 300)(random), '\0');
      for (char& c : text) c = static_cast<char>(round % 2 ? random() : "0123456789abcdefx .:-=/\n,"[random() % 25]);
      if (round == 3) text = std::string(100000, '9');
      m.write(name, text);
    }
    fs::create_directories(m.path / "proc/88/comm");         // a folder where a file is expected
    CHECK(mkfifo((m.path / "proc/89").c_str(), 0600) == 0);  // a pipe that nobody writes to
    CHECK(mkfifo((m.path / "etc/cdi/pipe.yaml").c_str(), 0600) == 0);
    fs::create_directories(m.path / "dev");
    CHECK(mkfifo((m.path / "dev/nvidia-uvm").c_str(), 0600) == 0);
    fs::create_symlink("self", m.path / "usr/local/self");  // a link to itself
    GatherOptions options;
    options.root = m.path.string();
    options.ask_driver = false;
    const Facts f = gather(options);
    const auto findings = diagnose(f);
    CHECK_FALSE(findings.empty());
    CHECK_FALSE(json_report(f, findings).dump(-1, ' ', true, json::error_handler_t::replace).empty());
  }
}
