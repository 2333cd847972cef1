#include "env_check/facts.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "common/error.hpp"

namespace env_check {
namespace {

using nlohmann::json;

// One list of fields per struct serves both directions: `visit(name, member)` writes or reads.
template <class S, class V>
void fields_of(S& s, V&& visit, const System*) {
  visit("kernel", s.kernel), visit("machine", s.machine), visit("distribution", s.distribution);
  visit("wsl", s.wsl), visit("container", s.container), visit("sandbox", s.sandbox), visit("service", s.service);
  visit("l4t", s.l4t), visit("prime", s.prime), visit("virtual_machine", s.virtual_machine);
  visit("overcommit", s.overcommit), visit("jit_cache_writable", s.jit_cache_writable);
  visit("tegra", s.tegra), visit("root", s.root);
  visit("sudo", s.sudo), visit("sys_admin", s.sys_admin), visit("secure_boot", s.secure_boot);
  visit("glibc", s.glibc), visit("suspends", s.suspends), visit("address_limit", s.address_limit);
  visit("firmware_path", s.firmware_path), visit("firmware_path_missing", s.firmware_path_missing);
  visit("cmake", s.cmake), visit("fabric_manager", s.fabric_manager);
  visit("fabric_manager_version", s.fabric_manager_version);
  visit("mps_daemon", s.mps_daemon), visit("mps_control", s.mps_control);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Module*) {
  visit("loaded", s.loaded), visit("version", s.version), visit("open", s.open), visit("uvm", s.uvm);
  visit("nouveau", s.nouveau), visit("on_disk", s.on_disk), visit("on_disk_other", s.on_disk_other);
  visit("dkms_source", s.dkms_source), visit("dkms_log", s.dkms_log), visit("blacklisted_in", s.blacklisted_in);
  visit("gsp_firmware", s.gsp_firmware), visit("kernel_headers", s.kernel_headers);
  visit("profiling_admin_only", s.profiling_admin_only), visit("packages", s.packages);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const PciDevice*) {
  visit("bdf", s.bdf), visit("device_id", s.device_id), visit("class_id", s.class_id), visit("driver", s.driver);
  visit("config_dead", s.config_dead), visit("bar1_unassigned", s.bar1_unassigned), visit("in_proc", s.in_proc);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const DeviceNode*) {
  visit("path", s.path), visit("mode", s.mode), visit("major", s.major);
  visit("expected_major", s.expected_major), visit("error", s.error);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Library*) {
  visit("name", s.name), visit("path", s.path), visit("real", s.real), visit("version", s.version);
  visit("where", s.where), visit("size", s.size), visit("elf_bits", s.elf_bits), visit("machine", s.machine);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Toolkit*) {
  visit("root", s.root), visit("nvcc", s.nvcc), visit("version", s.version), visit("error", s.error);
  visit("ptxas", s.ptxas), visit("from", s.from), visit("headers", s.headers), visit("runtime", s.runtime),
      visit("archs", s.archs), visit("gcc_max", s.gcc_max);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Compiler*) {
  visit("path", s.path), visit("kind", s.kind), visit("version", s.version), visit("from", s.from);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const CudaDevice*) {
  visit("name", s.name), visit("major", s.major), visit("minor", s.minor), visit("uuid", s.uuid);
  visit("pci", s.pci), visit("compute_mode", s.compute_mode), visit("managed_memory", s.managed_memory);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const DriverProbe*) {
  visit("state", s.state), visit("last_step", s.last_step), visit("error", s.error), visit("path", s.path);
  visit("version_result", s.version_result), visit("version", s.version), visit("init_result", s.init_result);
  visit("init_ms", s.init_ms), visit("count_result", s.count_result), visit("count", s.count),
      visit("context_result", s.context_result);
  visit("unmasked_count", s.unmasked_count), visit("jit_library", s.jit_library), visit("jit_error", s.jit_error);
  visit("devices", s.devices), visit("log", s.log);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const NvmlDevice*) {
  visit("name", s.name), visit("uuid", s.uuid), visit("pci", s.pci), visit("compute_mode", s.compute_mode);
  visit("processes", s.processes), visit("mig_current", s.mig_current), visit("mig_pending", s.mig_pending);
  visit("mig_devices", s.mig_devices), visit("remap_pending", s.remap_pending);
  visit("memory_mib", s.memory_mib), visit("memory_free_mib", s.memory_free_mib);
  visit("ecc_uncorrected", s.ecc_uncorrected), visit("persistence", s.persistence);
  visit("fabric_state", s.fabric_state), visit("remap_failure", s.remap_failure),
      visit("virtualization", s.virtualization);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const NvmlProbe*) {
  visit("state", s.state), visit("last_step", s.last_step), visit("error", s.error), visit("path", s.path);
  visit("init_result", s.init_result), visit("driver_version", s.driver_version);
  visit("cuda_version", s.cuda_version), visit("devices", s.devices);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Wsl*) {
  visit("dxg", s.dxg), visit("libraries", s.libraries), visit("loader_conf", s.loader_conf);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Containers*) {
  visit("docker", s.docker), visit("toolkit", s.toolkit), visit("daemon_nvidia", s.daemon_nvidia);
  visit("cdi_versions", s.cdi_versions);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const DeviceCode*) {
  visit("kind", s.kind), visit("arch", s.arch), visit("suffix", s.suffix), visit("isa_major", s.isa_major);
  visit("isa_minor", s.isa_minor), visit("count", s.count);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const NeededLibrary*) {
  visit("name", s.name), visit("path", s.path), visit("why", s.why), visit("by", s.by), visit("real", s.real);
  visit("instead", s.instead);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Binary*) {
  visit("path", s.path), visit("error", s.error), visit("machine", s.machine), visit("elf_bits", s.elf_bits);
  visit("code", s.code), visit("needed", s.needed);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Python*) {
  visit("path", s.path), visit("torch", s.torch), visit("version", s.version), visit("cuda", s.cuda);
  visit("error", s.error), visit("code", s.code);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Facts*) {
  visit("system", s.system), visit("module", s.module), visit("pci", s.pci), visit("nodes", s.nodes);
  visit("environment", s.environment), visit("libraries", s.libraries), visit("toolkits", s.toolkits);
  visit("homes_with_nvcc", s.homes_with_nvcc);
  visit("usr_local_cuda", s.usr_local_cuda), visit("path_nvcc", s.path_nvcc), visit("path_ptxas", s.path_ptxas),
      visit("nvidia_smi", s.nvidia_smi);
  visit("compiler", s.compiler), visit("other_compilers", s.other_compilers), visit("driver", s.driver);
  visit("nvml", s.nvml), visit("wsl", s.wsl), visit("containers", s.containers), visit("binaries", s.binaries);
  visit("python", s.python), visit("kernel_log", s.kernel_log), visit("reported_error", s.reported_error);
}

json write(bool v) { return v; }
json write(int v) { return v; }
json write(int64_t v) { return v; }
json write(const std::string& v) { return v; }
json write(const std::map<std::string, std::string>& v) {
  json out = json::object();
  for (const auto& [key, value] : v) out[key] = value;
  return out;
}
template <class T>
json write(const std::optional<T>& v) {
  return v ? json(*v) : json(nullptr);
}
template <class T>
json write(const std::vector<T>& v);
template <class S>
json write(const S& s) {
  json out = json::object();
  fields_of(
      s, [&](const char* name, const auto& member) { out[name] = write(member); }, static_cast<const S*>(nullptr));
  return out;
}
template <class T>
json write(const std::vector<T>& v) {
  json out = json::array();
  for (const T& item : v) out.push_back(write(item));
  return out;
}

// Where in the file a value stands, for the error line.
struct Place {
  std::string origin, key;
  Place at(const std::string& name) const { return {origin, key.empty() ? name : key + "." + name}; }
  Place at(size_t index) const { return {origin, fmt::format("{}[{}]", key, index)}; }
  [[noreturn]] void fail(const std::string& expected, const json& found) const {
    // An array or object is not printed: it may be large, and printing recurses as deep as the file nests.
    std::string text = found.is_structured() ? "" : found.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    throw BadInput(fmt::format("{}: key '{}': expected {}, found {}{}", origin, key.empty() ? "(top)" : key, expected,
                               found.type_name(), text.empty() ? "" : " " + text));
  }
};

void read(const json& j, bool& v, const Place& place) {
  if (!j.is_boolean()) place.fail("true or false", j);
  v = j.get<bool>();
}
template <class Int>
void read_integer(const json& j, Int& v, const Place& place) {
  // get<int>() would wrap silently: the range is checked in the widest type first.
  constexpr int64_t low = std::numeric_limits<Int>::min(), high = std::numeric_limits<Int>::max();
  const std::string expected = fmt::format("a whole number from {} to {}", low, high);
  if (!j.is_number_integer()) place.fail(expected, j);
  if (j.is_number_unsigned() && j.get<uint64_t>() > static_cast<uint64_t>(high)) place.fail(expected, j);
  const int64_t wide = j.get<int64_t>();
  if (wide < low || wide > high) place.fail(expected, j);
  v = static_cast<Int>(wide);
}
void read(const json& j, int& v, const Place& place) { read_integer(j, v, place); }
void read(const json& j, int64_t& v, const Place& place) { read_integer(j, v, place); }
void read(const json& j, std::string& v, const Place& place) {
  if (!j.is_string()) place.fail("a string", j);
  v = j.get<std::string>();
}
void read(const json& j, std::map<std::string, std::string>& v, const Place& place) {
  if (!j.is_object()) place.fail("an object of strings", j);
  for (const auto& [key, value] : j.items()) read(value, v[key], place.at(key));
}
template <class T>
void read(const json& j, std::optional<T>& v, const Place& place) {
  if (j.is_null()) return;
  T value{};
  read(j, value, place);
  v = value;
}
template <class T>
void read(const json& j, std::vector<T>& v, const Place& place);
template <class S>
void read(const json& j, S& s, const Place& place) {
  if (!j.is_object()) place.fail("an object", j);
  fields_of(
      s,
      [&](const char* name, auto& member) {
        const auto it = j.find(name);
        if (it != j.end()) read(*it, member, place.at(std::string(name)));
      },
      static_cast<const S*>(nullptr));
}
template <class T>
void read(const json& j, std::vector<T>& v, const Place& place) {
  if (!j.is_array()) place.fail("an array", j);
  for (size_t i = 0; i < j.size(); ++i) {
    v.emplace_back();
    read(j[i], v.back(), place.at(i));
  }
}

bool word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; }

// Replaces `word` where it stands alone, not inside a longer name.
void replace_word(std::string& text, const std::string& word, const std::string& with) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    const size_t end = at + word.size();
    const bool alone = (at == 0 || !word_char(text[at - 1])) && (end == text.size() || !word_char(text[end]));
    if (alone) text.replace(at, word.size(), with);
    at += alone ? with.size() : word.size();
  }
}

// Replaces the path component after `parent` ("/home/"), whoever it belongs to.
void replace_component_after(std::string& text, const std::string& parent, const std::string& with) {
  for (size_t at = text.find(parent); at != std::string::npos; at = text.find(parent, at)) {
    at += parent.size();
    size_t end = at;
    while (end < text.size() && text[end] != '/' && text[end] != ':') ++end;
    if (end > at) text.replace(at, end - at, with);
  }
}

std::string redacted_text(std::string text, const Identity& id) {
  if (id.home.size() > 1) {
    for (size_t at = text.find(id.home); at != std::string::npos; at = text.find(id.home, at)) {
      const size_t end = at + id.home.size();
      if (end < text.size() && word_char(text[end])) {
        at = end;
        continue;
      }
      text.replace(at, id.home.size(), "~");
      ++at;
    }
  }
  replace_component_after(text, "/home/", "USER");
  replace_component_after(text, "/Users/", "USER");
  // Names that are also ordinary words of these facts identify nobody, and replacing them would garble the facts.
  static const std::set<std::string> ordinary = {"root",  "nvidia", "ubuntu",    "debian", "cuda",  "user",   "gpu",
                                                 "local", "usr",    "localhost", "lib",    "linux", "docker", "runner"};
  const std::string short_host = id.host.substr(0, id.host.find('.'));
  for (const auto& [name, with] :
       {std::pair<std::string, std::string>{id.user, "USER"}, {id.host, "HOST"}, {short_host, "HOST"}})
    if (name.size() >= 2 && !ordinary.count(name)) replace_word(text, name, with);
  return text;
}

}  // namespace

const std::string* Facts::env(const std::string& name) const {
  const auto it = environment.find(name);
  return it == environment.end() ? nullptr : &it->second;
}

json to_json(const Facts& facts) {
  json out = write(facts);
  out["schema"] = 1;
  return out;
}

Facts facts_from_json(const json& j, const std::string& origin) {
  const Place top{origin, ""};
  if (!j.is_object()) top.fail("an object", j);
  if (const auto schema = j.find("schema"); schema != j.end()) {
    int number = 0;
    read(*schema, number, top.at("schema"));
    if (number != 1) top.at("schema").fail("1 (this env_check's format)", *schema);
  }
  Facts facts;
  read(j, facts, top);
  return facts;
}

Facts load_facts(const std::string& path) {
  constexpr std::streamsize limit = 16 << 20;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(fmt::format("{}: expected a facts file, cannot open it", path));
  std::string text(static_cast<size_t>(limit) + 1, '\0');
  in.read(text.data(), limit + 1);
  const std::streamsize size = in.gcount();
  if (size == 0) throw BadInput(fmt::format("{}: expected a facts file, found nothing to read", path));
  if (size > limit) throw BadInput(fmt::format("{}: expected a facts file, found more than 16 MiB", path));
  text.resize(static_cast<size_t>(size));
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) throw BadInput(fmt::format("{}: expected JSON as --save-facts writes it", path));
  return facts_from_json(parsed, path);
}

Identity this_identity() {
  Identity id;
  if (const passwd* entry = getpwuid(getuid())) {
    id.user = entry->pw_name ? entry->pw_name : "";
    id.home = entry->pw_dir ? entry->pw_dir : "";
  }
  if (const char* home = std::getenv("HOME"); home && home[0] == '/') id.home = home;
  while (id.home.size() > 1 && id.home.back() == '/') id.home.pop_back();
  if (const char* caller = std::getenv("SUDO_USER")) id.user = caller;  // root's own name identifies nobody
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) == 0) id.host = host;
  return id;
}

json redacted(const json& j, const Identity& identity) {
  if (j.is_string()) return redacted_text(j.get<std::string>(), identity);
  if (j.is_object() || j.is_array()) {
    json out = j;
    for (auto& item : out) item = redacted(item, identity);
    return out;
  }
  return j;
}

}  // namespace env_check
