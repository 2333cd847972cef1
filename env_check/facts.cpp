#include "env_check/facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/error.hpp"
#include "env_check/facts_fields.hpp"

namespace env_check {
namespace {

using nlohmann::json;

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
  // More than any machine has; the checks compare entries with one another.
  constexpr size_t most = 1000;
  if (!j.is_array()) place.fail("an array", j);
  if (j.size() > most)
    throw BadInput(
        fmt::format("{}: key '{}': expected at most {} entries, found {}", place.origin, place.key, most, j.size()));
  for (size_t i = 0; i < j.size(); ++i) {
    v.emplace_back();
    read(j[i], v.back(), place.at(i));
  }
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

namespace {
// How deep brackets nest, strings aside: known before a parser spends memory on it.
int nesting(const std::string& text) {
  int depth = 0, deepest = 0;
  bool string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (string && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      string = !string;
    else if (!string && (text[i] == '[' || text[i] == '{'))
      deepest = std::max(deepest, ++depth);
    else if (!string && (text[i] == ']' || text[i] == '}'))
      --depth;
  }
  return deepest;
}
}  // namespace

Facts load_facts(const std::string& path) {
  constexpr std::streamsize limit = 16 << 20;
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::not_found)
    throw BadInput(fmt::format("{}: expected a facts file, found something that is not a regular file", path));
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(fmt::format("{}: expected a facts file, cannot open it", path));
  std::string text(static_cast<size_t>(limit) + 1, '\0');
  in.read(text.data(), limit + 1);
  const std::streamsize size = in.gcount();
  if (size == 0) throw BadInput(fmt::format("{}: expected a facts file, found nothing to read", path));
  if (size > limit) throw BadInput(fmt::format("{}: expected a facts file, found more than 16 MiB", path));
  text.resize(static_cast<size_t>(size));
  constexpr int deepest = 20;
  if (nesting(text) > deepest)
    throw BadInput(fmt::format("{}: expected a facts file, found one nested deeper than {} levels", path, deepest));
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) throw BadInput(fmt::format("{}: expected JSON as --save-facts writes it", path));
  const bool report = parsed.is_object() && parsed.contains("verdict") && parsed.contains("facts");
  return facts_from_json(report ? parsed["facts"] : parsed, path);
}

}  // namespace env_check
