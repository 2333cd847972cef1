// What a facts file for the public must not tell: user names, the host's name, home folders.
#include <pwd.h>
#include <unistd.h>

#include <cctype>
#include <climits>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "env_check/redact.hpp"

namespace env_check {

using nlohmann::json;

namespace {

bool word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; }

// Replaces `word` where it stands alone. A short one does not in "a-word_b" (there it may be any word: "ml" in
// libnvidia-ml.so), one of four letters or more does: "/tmp/mps_alice".
void replace_word(std::string& text, const std::string& word, const std::string& with) {
  const auto word_char = [&](char c) {
    return word.size() < 4 ? env_check::word_char(c) : std::isalnum(static_cast<unsigned char>(c)) != 0;
  };
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

void replace_folder(std::string& text, const std::string& folder, const std::string& with) {
  if (folder.size() <= 1) return;
  for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at)) {
    const size_t end = at + folder.size();
    const bool whole = end == text.size() || !word_char(text[end]);
    if (whole) text.replace(at, folder.size(), with);
    at = whole ? at + with.size() : end;
  }
}

std::string redacted_text(std::string text, const Identity& id) {
  replace_folder(text, id.home, "~");
  replace_folder(text, id.real_home, "~");
  replace_component_after(text, "/home/", "USER");
  replace_component_after(text, "/Users/", "USER");
  // Names that are also ordinary words of these facts identify nobody, and replacing them would garble the facts.
  static const std::set<std::string> ordinary = {
      "root",      "nvidia", "ubuntu", "debian", "cuda",    "user",    "gpu",       "local",   "usr",
      "localhost", "lib",    "linux",  "docker", "runner",  "compute", "utils",     "driver",  "toolkit",
      "compat",    "stubs",  "python", "torch",  "generic", "server",  "microsoft", "standard"};
  const std::string short_host = id.host.substr(0, id.host.find('.'));
  for (const auto& [name, with] :
       {std::pair<std::string, std::string>{id.user, "USER"}, {id.host, "HOST"}, {short_host, "HOST"}})
    if (name.size() >= 2 && !ordinary.count(name)) replace_word(text, name, with);
  return text;
}

}  // namespace

Identity this_identity() {
  Identity id;
  if (const passwd* entry = getpwuid(getuid())) {
    id.user = entry->pw_name ? entry->pw_name : "";
    id.home = entry->pw_dir ? entry->pw_dir : "";
  }
  if (const char* home = std::getenv("HOME"); home && home[0] == '/') id.home = home;
  while (id.home.size() > 1 && id.home.back() == '/') id.home.pop_back();
  char resolved[PATH_MAX];
  if (!id.home.empty() && realpath(id.home.c_str(), resolved)) id.real_home = resolved;
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
