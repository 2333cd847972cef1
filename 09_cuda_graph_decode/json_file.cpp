#include "09_cuda_graph_decode/json_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unordered_set>
#include <vector>

#include "common/error.hpp"

using nlohmann::json;

namespace {

std::string shortened(std::string text) {
  constexpr size_t kLongest = 80;
  if (text.size() <= kLongest) return text;
  size_t end = kLongest;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // not inside a UTF-8 sequence
  return text.substr(0, end) + "…";
}

// Sees every key while the parser runs: the library itself keeps the last of two equal keys and says nothing.
class KeyWatch {
 public:
  explicit KeyWatch(const std::string& source) : source_(source) {}

  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    const size_t level = static_cast<size_t>(depth);
    if (level > kDeepest)
      throw BadInput(fmt::format("{}: expected at most {} levels of JSON, found more", source_, kDeepest));
    if (event == json::parse_event_t::object_start) {
      if (keys_.size() <= level) keys_.resize(level + 1);
      keys_[level].clear();
    } else if (event == json::parse_event_t::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!keys_[level - 1].insert(key).second) {
        throw BadInput(fmt::format("{}: expected every key once, found {} twice", source_, quote_name(key)));
      }
    }
    return true;
  }

 private:
  static constexpr size_t kDeepest = 64;
  const std::string& source_;
  std::vector<std::unordered_set<std::string>> keys_;  // one set per level of nesting
};

}  // namespace

std::string read_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw BadInput(fmt::format("{}: expected a file, found nothing", path));
  if (std::filesystem::is_directory(path, error)) {
    throw BadInput(fmt::format("{}: expected a file, found a folder", path));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) throw BadInput(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  return text;
}

json parse_json(std::string_view text, const std::string& source) {
  // The library skips a byte-order mark and stops at a NUL byte; both would let a broken file pass.
  if (text.empty()) throw BadInput(fmt::format("{}: expected JSON, found an empty file", source));
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    throw BadInput(fmt::format("{}: expected JSON, found a byte-order mark before it", source));
  }
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw BadInput(fmt::format("{}: expected JSON, found a NUL byte at byte {}", source, nul));
  }
  KeyWatch watch(source);
  const json::parser_callback_t callback = [&watch](int depth, json::parse_event_t event, json& parsed) {
    return watch(depth, event, parsed);
  };
  try {
    return json::parse(text.begin(), text.end(), callback);
  } catch (const json::parse_error& error) {
    throw BadInput(fmt::format("{}: expected JSON, found a mistake or the end at byte {}", source, error.byte));
  } catch (const json::out_of_range&) {
    throw BadInput(fmt::format("{}: expected JSON, found a number too large to represent", source));
  }
}

json read_json_object(const std::string& path) {
  json value = parse_json(read_file(path), path);
  if (!value.is_object()) {
    throw BadInput(fmt::format("{}: expected a JSON object, found {}", path, value.type_name()));
  }
  return value;
}

std::string quote_name(std::string_view name) { return shown(json(std::string(name))); }

std::string shown(const json& value) { return shortened(value.dump(-1, ' ', false, json::error_handler_t::replace)); }
