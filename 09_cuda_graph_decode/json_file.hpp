// 09 · reading files and JSON so that whatever is wrong ends as one clear line
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

// The whole file as bytes. Throws BadInput when it is missing, a folder or unreadable.
std::string read_file(const std::string& path);

// Strict JSON: no comments, no byte-order mark, nothing after the value, no key twice in one object, at most 64 levels
// deep. Throws BadInput that starts with `source` (a file name as the user knows it).
nlohmann::json parse_json(std::string_view text, const std::string& source);

// read_file, then parse_json; the value must be an object.
nlohmann::json read_json_object(const std::string& path);

// A name from a file as it may stand in a message: quoted, control characters escaped, at most 80 characters.
std::string quote_name(std::string_view name);

// A JSON value as it may stand in a message: one line, at most 80 characters.
std::string shown(const nlohmann::json& value);
