#include "env_check/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "env_check/tables.hpp"

namespace env_check {

namespace fs = std::filesystem;
using std::string;
using std::vector;

bool starts_with(const string& text, const string& start) { return text.rfind(start, 0) == 0; }
bool contains(const string& text, const string& part) { return text.find(part) != string::npos; }

string trimmed(string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  size_t at = 0;
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
  return text.substr(at);
}

vector<string> split(const string& text, char separator) {
  vector<string> parts;
  std::istringstream in(text);
  for (string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

vector<string> search_folders(const string& path, const string& separators) {
  vector<string> folders;
  if (path.empty()) return folders;
  size_t start = 0;
  for (size_t at = 0; at <= path.size(); ++at) {
    if (at < path.size() && !contains(separators, string(1, path[at]))) continue;
    folders.push_back(at > start ? path.substr(start, at - start) : ".");
    start = at + 1;
  }
  return folders;
}

string env_or_empty(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

string read_text(const string& path, size_t limit) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) return "";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  string text;
  char buffer[65536];
  while (text.size() < limit) {
    const ssize_t got = read(fd, buffer, std::min(sizeof buffer, limit - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  close(fd);
  return text;
}

bool exists(const string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0;
}
bool is_folder(const string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}
bool is_program(const string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && access(path.c_str(), X_OK) == 0;
}

string real_path(const string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) ? resolved : "";
}
string parent(const string& path) {
  const size_t slash = path.rfind('/');
  return slash == string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}
string base_name(const string& path) { return path.substr(path.rfind('/') + 1); }

vector<string> names_in(const string& folder, size_t limit) {
  vector<string> names;
  std::error_code error;
  fs::directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && it != end && names.size() < limit; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

string find_on_path(const string& program) {
  if (contains(program, "/")) return is_program(program) ? program : "";
  for (const string& folder : split(env_or_empty("PATH"), ':'))
    if (!folder.empty() && is_program(folder + "/" + program)) return folder + "/" + program;
  return "";
}

string version_after(const string& text, const string& marker) {
  const size_t at = text.find(marker);
  if (at == string::npos) return "";
  const string rest = text.substr(at + marker.size(), 200);
  size_t start = 0;
  while (start < rest.size() && !std::isdigit(static_cast<unsigned char>(rest[start]))) {
    if (rest[start] == '\n') return "";
    ++start;
  }
  return Version(rest.substr(start)).text();
}

std::optional<int> integer(const string& text, int base) {
  const string t = trimmed(text);
  if (t.empty()) return std::nullopt;
  errno = 0;
  char* end = nullptr;
  const long value = std::strtol(t.c_str(), &end, base);
  if (errno != 0 || *end != '\0' || value < INT_MIN || value > INT_MAX) return std::nullopt;
  return static_cast<int>(value);
}

}  // namespace env_check
