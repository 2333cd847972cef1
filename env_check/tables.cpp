#include "env_check/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "env_check_tables.inc"  // made by CMake from data/*.json: one raw string per file

namespace env_check {
namespace {

using nlohmann::json;

const json& drivers() {
  static const json table = json::parse(kDriverPerToolkit);
  return table;
}
const json& archs() {
  static const json table = json::parse(kArchPerNvcc);
  return table["rows"];
}
const json& compilers() {
  static const json table = json::parse(kGccPerNvcc);
  return table["rows"];
}
const json& ptx() {
  static const json table = json::parse(kPtxIsa);
  return table["rows"];
}
const json& cards() {
  static const json table = json::parse(kCards);
  return table;
}
const json& errors() {
  static const json table = json::parse(kErrorCodes);
  return table["rows"];
}

std::string text_of(const json& row, const char* key) { return row.at(key).get<std::string>(); }
Version version_of(const json& row, const char* key) { return Version(text_of(row, key)); }

// The newest row whose `key` is not newer than `wanted`; nullptr when all are.
const json* newest_row(const json& rows, const char* key, const Version& wanted) {
  const json* found = nullptr;
  for (const json& row : rows)
    if (version_of(row, key) <= wanted) found = &row;
  return found;
}

int hex(const json& row, const char* key) {
  return static_cast<int>(std::strtol(text_of(row, key).c_str(), nullptr, 16));
}

// "10.3" → 103
int arch_of_cc(const std::string& cc) {
  const Version v(cc);
  return v.major() * 10 + v.minor();
}

}  // namespace

Version::Version(const std::string& text) {
  size_t at = 0;
  while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) && parts.size() < 8) {
    int64_t value = 0;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])))
      value = std::min<int64_t>(value * 10 + (text[at++] - '0'), INT_MAX);  // an absurd file must not overflow
    parts.push_back(static_cast<int>(value));
    written = text.substr(0, at);
    if (at < text.size() && text[at] == '.') ++at;
  }
}

std::string Version::text() const {
  if (!written.empty()) return written;
  std::string out;
  for (int part : parts) out += (out.empty() ? "" : ".") + std::to_string(part);
  return out;
}

bool operator<(const Version& a, const Version& b) {
  const size_t n = std::max(a.parts.size(), b.parts.size());
  for (size_t i = 0; i < n; ++i) {
    const int x = i < a.parts.size() ? a.parts[i] : 0, y = i < b.parts.size() ? b.parts[i] : 0;
    if (x != y) return x < y;
  }
  return false;
}

int NvccArchs::lowest() const {
  int low = INT_MAX;
  for (const std::string& a : archs) low = std::min(low, std::atoi(a.c_str()));
  return low;
}
int NvccArchs::highest() const {
  int high = 0;
  for (const std::string& a : archs) high = std::max(high, std::atoi(a.c_str()));
  return high;
}
bool NvccArchs::has(int arch) const {
  return std::find(archs.begin(), archs.end(), std::to_string(arch)) != archs.end();
}
int NvccArchs::newest_below(int arch) const {
  int best = 0;
  for (const std::string& a : archs)
    if (const int number = std::atoi(a.c_str()); std::to_string(number) == a && number < arch)
      best = std::max(best, number);
  return best;
}

std::optional<NvccArchs> archs_of_nvcc(const Version& nvcc) {
  const json* row = newest_row(archs(), "nvcc", nvcc.release());
  if (!row) return std::nullopt;
  NvccArchs out;
  out.nvcc = version_of(*row, "nvcc");
  out.beyond_table = nvcc.release() > version_of(archs().back(), "nvcc");
  out.default_arch = text_of(*row, "default");
  out.archs = row->at("archs").get<std::vector<std::string>>();
  return out;
}

namespace {
bool row_has(const json& row, int arch) {
  for (const json& a : row.at("archs"))
    if (a.get<std::string>() == std::to_string(arch)) return true;
  return false;
}
}  // namespace

Version first_nvcc_for(int arch) {
  for (const json& row : archs())
    if (row_has(row, arch)) return version_of(row, "nvcc");
  return {};
}

Version last_nvcc_for(int arch) {
  if (row_has(archs().back(), arch)) return {};
  Version last;
  for (const json& row : archs())
    if (row_has(row, arch)) last = version_of(row, "nvcc");
  return last;
}

std::optional<CompilerLimit> compiler_limit(const Version& nvcc) {
  const json* row = newest_row(compilers(), "nvcc", nvcc.release());
  if (!row) return std::nullopt;
  return CompilerLimit{row->at("gcc").get<int>(), row->at("clang").get<int>()};
}

std::string driver_for_toolkit(const Version& cuda, bool windows) {
  for (const json& row : drivers()["toolkits"])
    if (version_of(row, "cuda") == cuda.release()) return text_of(row, windows ? "windows" : "linux");
  return "";
}

std::string oldest_driver_for_major(int major, bool windows) {
  for (const json& row : drivers()["majors"])
    if (row.at("major").get<int>() == major) return text_of(row, windows ? "windows" : "linux");
  return "";
}

Version cuda_of_driver(const Version& driver) {
  Version found;
  for (const json& row : drivers()["toolkits"])
    if (version_of(row, "linux").major() <= driver.major()) found = version_of(row, "cuda");
  return found;
}

Version cuda_of_ptx(const Version& isa) {
  for (const json& row : ptx())
    if (version_of(row, "ptx") >= isa) return version_of(row, "cuda");
  // Newer than the table: newer than every CUDA version in it.
  const Version last = version_of(ptx().back(), "cuda");
  return {last.major(), last.minor() + 1};
}

std::optional<int> arch_of_pci(int device_id) {
  int narrowest = INT_MAX;
  std::optional<int> arch;
  for (const json& row : cards()["pci"]) {
    const int first = hex(row, "first"), last = hex(row, "last");
    if (device_id < first || device_id > last || last - first >= narrowest) continue;
    narrowest = last - first;
    arch = arch_of_cc(text_of(row, "cc"));
  }
  return arch;
}

int last_driver_for(int arch) {
  for (const json& row : cards()["last_drivers"])
    if (arch < arch_of_cc(text_of(row, "below"))) return row.at("branch").get<int>();
  return 0;
}

std::string cards_of_arch(int arch) {
  for (const json& row : cards()["names"])
    if (arch_of_cc(text_of(row, "cc")) == arch) return text_of(row, "cards");
  return "";
}

ErrorCode error_code(int code) {
  for (const json& row : errors())
    if (row.at("code").get<int>() == code)
      return {text_of(row, "name"), text_of(row, "text"), text_of(row, "cause"),
              row.at("findings").get<std::vector<std::string>>()};
  return {fmt::format("error {}", code), "", "", {}};
}

std::vector<int> listed_errors() {
  std::vector<int> codes;
  for (const json& row : errors()) codes.push_back(row.at("code").get<int>());
  return codes;
}

XidCode xid_code(int xid) {
  static const json table = json::parse(kXidCodes);
  for (const json& row : table["rows"])
    if (row.at("xid").get<int>() == xid) return {text_of(row, "kind"), text_of(row, "text")};
  return {};
}

}  // namespace env_check
