#include "env_check/compatibility.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace env_check {

bool fits(const DeviceCode& code, int arch) {
  if (code.kind == "lto") return false;  // no card runs it before it is linked
  if (code.suffix == "a") return code.arch == arch;
  const bool same_major = code.arch / 10 == arch / 10;
  if (code.suffix == "f" || code.kind == "cubin") return same_major && code.arch <= arch;
  return code.kind == "ptx" && code.arch <= arch;
}

CodeFit best_fit(const std::vector<DeviceCode>& code, int arch, const Version& driver) {
  CodeFit best;
  for (const DeviceCode& entry : code) {
    if (!fits(entry, arch)) {
      if (best.fit == Fit::kNoCode && !entry.suffix.empty() && entry.arch < arch) best.only_specific = true;
      continue;
    }
    Fit fit = Fit::kRuns;
    if (entry.kind == "ptx") {
      const bool too_new = driver.known() && cuda_of_ptx({entry.isa_major, entry.isa_minor}) > driver;
      fit = too_new ? Fit::kPtxTooNew : Fit::kJit;
    }
    const bool nearer = fit == best.fit && entry.arch > best.code.arch;
    if (fit < best.fit || nearer) best = {fit, entry, false};
  }
  return best;
}

std::string code_name(const DeviceCode& code) {
  if (code.kind == "ptx")
    return fmt::format("compute_{}{} (PTX {}.{})", code.arch, code.suffix, code.isa_major, code.isa_minor);
  return fmt::format("{}_{}{}", code.kind == "lto" ? "lto" : "sm", code.arch, code.suffix);
}

std::string code_list(const std::vector<DeviceCode>& code) {
  std::string out;
  for (const DeviceCode& entry : code) out += (out.empty() ? "" : ", ") + code_name(entry);
  return out.empty() ? "none" : out;
}

std::vector<Card> cards_of(const Facts& facts) {
  std::vector<Card> cards;
  for (const CudaDevice& d : facts.driver.devices)
    if (d.major > 0 && d.major < 1000 && d.minor >= 0 && d.minor < 10)
      cards.push_back({d.name.empty() ? "card" : d.name, d.major * 10 + d.minor, false});
  if (!cards.empty()) return cards;
  for (const PciDevice& p : facts.pci) {
    if (p.class_id >> 8 == 0x0680) continue;
    if (const auto arch = arch_of_pci(p.device_id))
      cards.push_back({fmt::format("PCI {} 10de:{:04x} ({})", p.bdf, p.device_id, cards_of_arch(*arch)), *arch, true});
  }
  return cards;
}

const Toolkit* build_toolkit(const Facts& facts) { return facts.toolkits.empty() ? nullptr : &facts.toolkits[0]; }

std::optional<NvccArchs> archs_of(const Toolkit& toolkit) {
  auto archs = archs_of_nvcc(Version(toolkit.version));
  if (!archs || toolkit.archs.empty()) return archs;
  // Its own list has the plain numbers; the suffixes of those come from the table.
  std::vector<std::string> own = toolkit.archs;
  for (const std::string& entry : archs->archs) {
    const std::string number = entry.substr(0, entry.find_first_of("af"));
    const bool listed = std::find(own.begin(), own.end(), number) != own.end();
    if (number != entry && listed && std::find(own.begin(), own.end(), entry) == own.end()) own.push_back(entry);
  }
  archs->archs = own;
  archs->beyond_table = false;
  return archs;
}

std::string cuda_architectures(const Facts& facts) {
  const Toolkit* toolkit = build_toolkit(facts);
  const auto archs = toolkit ? archs_of(*toolkit) : std::nullopt;
  if (!archs) return "";
  std::map<int, std::string> wanted;
  for (const Card& card : cards_of(facts)) {
    if (archs->has(card.arch)) {
      const bool hopper = card.arch == 90 && archs->nvcc >= Version(12, 0);
      wanted[card.arch] = hopper ? "90a" : std::to_string(card.arch);
    } else if (archs->beyond_table && card.arch > archs->highest()) {
      wanted[card.arch] = std::to_string(card.arch);  // an nvcc newer than our table may well know it
    } else if (const int below = archs->newest_below(card.arch); below > 0) {
      wanted[below] = std::to_string(below) + "-virtual";
    }
  }
  std::string out;
  for (const auto& [number, arch] : wanted) out += (out.empty() ? "" : ";") + arch;
  return out;
}

Version driver_cuda(const Facts& facts) {
  const auto plausible = [](const std::optional<int>& number) {
    return number && *number >= 1000 && *number < 1000000;
  };
  // A libcuda of another version than the module's is refused (803): its number is not the driver's.
  if (facts.driver.init_result == 803 && !facts.module.version.empty())
    return cuda_of_driver(Version(facts.module.version));
  if (plausible(facts.driver.version)) return cuda_version(*facts.driver.version);
  if (plausible(facts.nvml.cuda_version)) return cuda_version(*facts.nvml.cuda_version);
  return {};
}

std::string driver_version(const Facts& facts) {
  return facts.module.version.empty() ? facts.nvml.driver_version : facts.module.version;
}

}  // namespace env_check
