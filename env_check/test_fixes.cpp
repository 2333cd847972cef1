// Not only the right finding: the right fix. What must, and what must not, stand in the text of a case.
#include <fstream>
#include <nlohmann/json.hpp>

#include "env_check/diagnose.hpp"
#include "env_check/test_harness.hpp"
#include "env_check/test_support.hpp"

using namespace env_check;
using nlohmann::json;

namespace {

json load(const std::string& name) {
  std::ifstream in(std::string(ENV_CHECK_CASES) + "/" + name + ".json");
  return json::parse(in);
}

// What, how and fix of the finding `id` of a case with `change` merged in; "" without it.
std::string finding(const std::string& name, const std::string& id, const json& change = json::object()) {
  const json c = load(name);
  json facts = load("base/" + c["base"].get<std::string>());
  facts.merge_patch(c["facts"]);
  facts.merge_patch(change);
  std::string text;
  for (const Finding& x : diagnose(facts_from_json(facts, name))) {
    if (x.id != id) continue;
    text = x.what + "\n";
    for (const std::string& line : x.how) text += line + "\n";
    for (const std::string& line : x.fix) text += line + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("env_check proposes no driver that has dropped the card") {
  const std::string kepler = finding("02_kepler_cuda_13", "driver_too_old");
  CHECK(holds(kepler, "up to driver 470"));
  CHECK_FALSE(holds(kepler, "580"));
  CHECK(holds(kepler, "cuda-toolkit-11-4"));
  CHECK(holds(finding("02_driver_too_old", "driver_too_old"), "580.65.06"));
}

TEST_CASE("env_check proposes a driver that is new enough for the card, also where the distribution's is not") {
  const auto proposal = [](int device, const char* distribution) {
    const json card = {{"bdf", "0000:01:00.0"}, {"device_id", device}, {"class_id", 0x030000}};
    return finding("01_no_driver", "no_driver", {{"system", {{"distribution", distribution}}}, {"pci", {card}}});
  };
  CHECK(holds(proposal(0x2b85, "debian 12"), "driver 570.26 or newer"));
  CHECK_FALSE(holds(proposal(0x2b85, "debian 12"), "install nvidia-driver\n"));
  CHECK(holds(proposal(0x2504, "debian 12"), "install nvidia-driver\n"));
  CHECK(holds(proposal(0x13c2, "ubuntu 24.04"), "at most 580"));
  CHECK_FALSE(holds(proposal(0x13c2, "arch"), "nvidia-open-dkms"));
  CHECK(holds(proposal(0x2504, "arch"), "nvidia-open-dkms"));
}

TEST_CASE("env_check proposes the PyTorch wheel of the card, the driver and the machine") {
  CHECK(holds(finding("40_torch_rtx_5090", "torch_no_arch"), "/whl/cu128"));
  CHECK(holds(finding("41_torch_v100_cu130", "torch_no_arch"), "/whl/cu126"));
  const json python = {{"path", "/usr/bin/python3"}, {"torch", "/x/torch"}, {"version", "2.9.0+cpu"}, {"cuda", ""}};
  const std::string jetson = finding("00_healthy_jetson", "torch_cpu_only", {{"python", python}});
  CHECK(holds(jetson, "JetPack"));
  CHECK_FALSE(holds(jetson, "download.pytorch.org"));
  const json old = {{"python", python}, {"driver", {{"version", 11040}}}};
  CHECK(holds(finding("00_healthy_native", "torch_cpu_only", old), "/whl/cu118"));
}

TEST_CASE("env_check says what it saw, not more: Secure Boot, an unreadable bus, an nvcc for another processor") {
  const std::string guess = finding("07_secure_boot", "secure_boot");
  CHECK(holds(guess, "most likely"));
  const json log = {{"kernel_log", {"Loading of module with unavailable key is rejected"}}};
  const std::string sure = finding("07_secure_boot", "secure_boot", log);
  CHECK_FALSE(holds(sure, "most likely"));
  CHECK(holds(sure, "unavailable key"));
  CHECK(holds(finding("01_no_gpu", "no_gpu"), "no PCI device can be listed"));
  const json listed = {{"system", {{"pci_functions", 31}}}};
  CHECK(holds(finding("01_no_gpu", "no_gpu", listed), "none of 31 PCI devices"));
  CHECK(holds(finding("64_nvcc_other_machine", "nvcc_broken"), "for aarch64, this machine is x86_64"));
}
