#include "env_check/diagnose.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "env_check/diagnosis.hpp"

namespace env_check {

Diagnosis::Diagnosis(const Facts& facts) : f(facts) {
  const DriverProbe& p = f.driver;
  asked = !p.state.empty();
  works = p.state == "answered" && p.init_result == 0 && p.count_result.value_or(0) == 0 && p.count.value_or(0) > 0;
  code = 0;
  if (p.version_result.value_or(0) != 0) code = *p.version_result;
  if (p.count_result.value_or(0) != 0) code = *p.count_result;
  if (p.init_result.value_or(0) != 0) code = *p.init_result;
  if (code == 0 && p.state == "answered" && p.count == 0) code = 100;
  native = !f.system.wsl && f.system.container.empty();
  nvml_works = f.nvml.state == "answered" && f.nvml.init_result == 0;
  for (const PciDevice& device : f.pci)
    if (device.class_id >> 8 != 0x0680) gpus.push_back(device);
  driver = driver_cuda(f);
}

constexpr size_t kMostEvidence = 40;  // nobody reads more

void Diagnosis::add(Severity severity, const std::string& id, const std::string& what, Lines how, Lines fix) {
  for (Finding& have : found)
    if (have.id == id) {  // one finding per kind: a second card or file adds its evidence
      have.severity = std::min(have.severity, severity);
      for (const std::string& line : how)
        if (have.how.size() < kMostEvidence && std::find(have.how.begin(), have.how.end(), line) == have.how.end())
          have.how.push_back(line);
      return;
    }
  found.push_back({id, severity, what, std::move(how), std::move(fix)});
}

bool Diagnosis::has(const std::string& id) const {
  return std::any_of(found.begin(), found.end(), [&](const Finding& x) { return x.id == id; });
}

bool Diagnosis::any_error() const {
  return std::any_of(found.begin(), found.end(), [](const Finding& x) { return x.severity == Severity::kError; });
}

const DeviceNode* Diagnosis::node(const std::string& path) const {
  for (const DeviceNode& n : f.nodes)
    if (n.path == path) return &n;
  return nullptr;
}

bool Diagnosis::card_node() const {
  const std::string start = "/dev/nvidia";
  return std::any_of(f.nodes.begin(), f.nodes.end(), [&](const DeviceNode& n) {
    return n.path.rfind(start, 0) == 0 && n.path.find_first_of("0123456789") == start.size();
  });
}

bool Diagnosis::any_node_error(const std::string& error) const { return !nodes_with(error).empty(); }

std::string Diagnosis::nodes_with(const std::string& error) const {
  Lines paths;
  for (const DeviceNode& n : f.nodes)
    if (n.error == error && n.path.rfind("/dev/nvidia-caps/", 0) != 0) paths.push_back(n.path);
  return join(paths);
}

std::string Diagnosis::env_text(const std::string& name) const {
  const std::string* value = f.env(name);
  return value ? fmt::format("{}=\"{}\"", name, *value) : name + " is not set";
}

bool Diagnosis::env_is(const std::string& name, const std::string& value) const {
  const std::string* have = f.env(name);
  return have && *have == value;
}

bool Diagnosis::is_distribution(const Lines& names) const {
  const std::string id = f.system.distribution.substr(0, f.system.distribution.find(' '));
  return std::find(names.begin(), names.end(), id) != names.end();
}

Lines Diagnosis::install(const std::string& apt, const std::string& dnf) const {
  if (is_distribution({"fedora", "rhel", "rocky", "almalinux", "centos", "ol", "amzn"}))
    return {"sudo dnf install " + dnf};
  if (is_distribution({"arch", "manjaro", "endeavouros", "opensuse-leap", "opensuse-tumbleweed", "sles", "nixos",
                       "gentoo", "alpine", "void"}))
    return {"# with this distribution's package manager, what Debian calls: " + apt};
  return {"sudo apt-get install " + apt};
}

// Never older than what the cards need, and no proposal where no driver of that age still runs a card.
Lines Diagnosis::install_driver(const std::string& at_least) const {
  std::string least = at_least, last_of_card;
  for (const Card& card : f.system.tegra ? std::vector<Card>() : cards_of(f)) {
    const int last = last_driver_for(card.arch);
    if (last > 0 && Version(at_least).major() > last)
      return {
          fmt::format("# no newer driver helps: {} (sm_{}) is supported up to driver {}", card.name, card.arch, last)};
    if (last > 0) last_of_card = std::to_string(last);
    const std::string first = card.arch >= 100 ? driver_for_toolkit(first_nvcc_for(card.arch), f.system.wsl) : "";
    if (Version(first) > Version(least)) least = first;
  }
  std::string wanted = least.empty() ? "" : fmt::format(" {} or newer", least);
  if (!last_of_card.empty()) wanted += fmt::format(", at most {}, the last for this card", last_of_card);
  if (f.system.wsl)
    return {
        fmt::format("# on Windows (not inside WSL): install NVIDIA's Windows driver{}, then in PowerShell:", wanted),
        "wsl --shutdown"};
  if (!f.system.container.empty())
    return {fmt::format("# on the host, not in the container: install NVIDIA driver{}, then start the container again",
                        wanted)};
  if (f.system.tegra) return {"# flash or upgrade JetPack: on a Jetson the driver is part of it"};
  const std::string comment = "# NVIDIA driver" + (wanted.empty() ? std::string(", newest") : wanted) + ":";
  if (is_distribution({"ubuntu", "linuxmint", "pop"})) return {comment, "sudo ubuntu-drivers install", "sudo reboot"};
  const std::string guide = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide";
  if (is_distribution({"debian"}) && Version(least).major() >= 550)  // Debian 12 has 535, Debian 13 550
    return {comment + " Debian's own is older; add NVIDIA's repository, " + guide, "sudo apt-get install nvidia-open",
            "sudo reboot"};
  if (is_distribution({"debian"}))
    return {comment + " (Debian: with the non-free components, or from NVIDIA's own repository)",
            "sudo apt-get install nvidia-driver", "sudo reboot"};
  if (is_distribution({"arch", "manjaro", "endeavouros"}))
    return last_of_card.empty() ? Lines{comment, "sudo pacman -S nvidia-open-dkms nvidia-utils"}
                                : Lines{comment + " from the AUR, nvidia-" + last_of_card + "xx-dkms"};
  return {comment + " follow " + guide};
}

Lines Diagnosis::install_toolkit(const Version& release) const {
  const std::string dashed = fmt::format("{}-{}", release.major(), release.minor());
  const std::string where =
      f.system.wsl ? "# from NVIDIA's wsl-ubuntu repository; never the packages cuda or cuda-drivers inside WSL"
                   : "# from NVIDIA's repository, https://developer.nvidia.com/cuda-downloads";
  Lines fix = {where};
  for (const std::string& line : install("cuda-toolkit-" + dashed, "cuda-toolkit-" + dashed)) fix.push_back(line);
  fix.push_back(fmt::format("export PATH=/usr/local/cuda-{}.{}/bin:$PATH", release.major(), release.minor()));
  return fix;
}

std::string code_text(int code) {
  const ErrorCode e = error_code(code);
  return e.text.empty() ? std::to_string(code) : fmt::format("{} ({}: {})", code, e.name, e.text);
}

std::string join(const Lines& parts, const std::string& separator) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : separator) + part;
  return out;
}

Lines list_items(const std::string& text, char separator) {
  Lines items;
  std::string item;
  for (const char c : text + separator) {
    if (c == separator) {
      if (!item.empty()) items.push_back(item);
      item.clear();
    } else if (c != ' ' || !item.empty()) {
      item += c;
    }
  }
  return items;
}

std::vector<Finding> diagnose(const Facts& facts) {
  Diagnosis d(facts);
  check_driver(d);
  check_cards(d);
  check_settings(d);
  check_unexplained(d);
  check_containers(d);
  check_toolkit(d);
  check_libraries(d);
  check_programs(d);
  check_python(d);
  check_reported_error(d);
  std::stable_sort(d.found.begin(), d.found.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return d.found;
}

bool healthy(const std::vector<Finding>& findings) {
  return std::all_of(findings.begin(), findings.end(), [](const Finding& x) { return x.severity == Severity::kNote; });
}

}  // namespace env_check
