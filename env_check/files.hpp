// Reading files and names that may be absent, unreadable or absurd: nothing here throws or waits.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace env_check {

bool starts_with(const std::string& text, const std::string& start);
bool contains(const std::string& text, const std::string& part);
std::string trimmed(std::string text);
// The folders of a search path as ld.so reads it: an empty entry is the current folder, an empty path has none.
std::vector<std::string> search_folders(const std::string& path, const std::string& separators = ":");
std::vector<std::string> split(const std::string& text, char separator);
std::optional<int> integer(const std::string& text, int base = 10);  // the whole text, white space aside

// The first "12.4" or "12.4.127" after `marker` on its line; "" without one.
std::string version_after(const std::string& text, const std::string& marker);

// At most `limit` bytes of a regular file (those of /proc and /sys count); "" if it cannot be read.
std::string read_text(const std::string& path, size_t limit = 8 << 20);

bool exists(const std::string& path);
bool is_folder(const std::string& path);
bool is_program(const std::string& path);
std::string real_path(const std::string& path);  // links resolved; "" if it does not exist
std::string parent(const std::string& path);
std::string base_name(const std::string& path);
std::vector<std::string> names_in(const std::string& folder, size_t limit = 100000);  // sorted

std::string env_or_empty(const char* name);
std::string find_on_path(const std::string& program);  // "" if it is not on PATH

}  // namespace env_check
