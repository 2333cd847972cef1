// CUDA's libraries on this machine, in the order in which the loader would find them.
#include <sys/stat.h>

#include <regex>

#include "env_check/child.hpp"
#include "env_check/elf_file.hpp"
#include "env_check/files.hpp"
#include "env_check/gather_parts.hpp"
#include "env_check/tables.hpp"

namespace env_check {

using std::string;
using std::vector;

namespace {

bool wanted(const string& name) {
  static const std::regex form(
      R"(lib(cuda|cudart|cublas|cublasLt|cusparse|cusolver|nvJitLink|nvrtc|cudnn|nvidia-ml|nvidia-ptxjitcompiler)\.so(\.\d+)*)");
  return name.size() < 80 && std::regex_match(name, form);
}

void add_library(Facts& facts, const string& path, const string& where) {
  Library l;
  l.name = base_name(path);
  l.path = path;
  l.real = real_path(path);
  l.where = where;
  const string real_name = base_name(l.real);
  const size_t so = real_name.find(".so.");
  if (so != string::npos) l.version = Version(real_name.substr(so + 4)).text();
  struct stat st {};
  if (stat(path.c_str(), &st) == 0) l.size = st.st_size;
  const ElfKind kind = elf_kind(path);
  l.elf_bits = kind.bits;
  l.machine = kind.machine;
  for (const Library& have : facts.libraries)
    if (have.path == l.path && have.where == l.where) return;
  if (facts.libraries.size() < 1000) facts.libraries.push_back(l);
}

void folder_libraries(Facts& facts, const string& folder, const string& where, const vector<string>& starts = {}) {
  for (const string& name : names_in(folder)) {
    if (!starts_with(name, "lib") || !wanted(name)) continue;
    bool asked = starts.empty();
    for (const string& start : starts) asked = asked || starts_with(name, start);
    if (asked) add_library(facts, folder + "/" + name, where);
  }
}

bool is_searched(const Facts& facts, const string& folder) {
  const string real = real_path(folder);
  for (const Library& l : facts.libraries)
    if (l.where != "unsearched" && (parent(l.path) == folder || parent(l.path) == real)) return true;
  return false;
}

}  // namespace

vector<string> cached_libraries(const string& text, const vector<string>& hwcaps) {
  vector<string> paths, plain;
  vector<vector<string>> variants(hwcaps.size());
  for (const string& line : split(text, '\n')) {
    const size_t arrow = line.find(" => "), cap = line.find(", hwcap: \"");
    if (arrow == string::npos) continue;
    const string path = line.substr(arrow + 4);
    if (cap >= arrow) plain.push_back(path);
    for (size_t i = 0; i < hwcaps.size() && cap < arrow; ++i)
      if (line.compare(cap + 10, hwcaps[i].size() + 1, hwcaps[i] + "\"") == 0) variants[i].push_back(path);
  }
  for (const vector<string>& variant : variants) paths.insert(paths.end(), variant.begin(), variant.end());
  paths.insert(paths.end(), plain.begin(), plain.end());
  return paths;
}

void gather_libraries(Facts& facts, const GatherOptions& options) {
  const auto at = [&](const string& path) { return options.root + path; };
  for (const string& folder : search_folders(env_or_empty("LD_LIBRARY_PATH"), ":;")) {
    for (const string& variant : facts.system.hwcaps)
      folder_libraries(facts, folder + "/glibc-hwcaps/" + variant, "LD_LIBRARY_PATH");
    folder_libraries(facts, folder, "LD_LIBRARY_PATH");
  }
  for (const char* ldconfig : {"/sbin/ldconfig", "/usr/sbin/ldconfig"}) {
    if (!options.root.empty() || !is_program(ldconfig)) continue;
    for (const string& path : cached_libraries(output_of({ldconfig, "-p"}, options.program_limit), facts.system.hwcaps))
      if (wanted(base_name(path))) add_library(facts, path, "cache");
    break;
  }
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"})
    folder_libraries(facts, at(folder), "default", {"libcuda.so", "libnvidia-ml.so"});
  vector<string> folders = {
      "/usr/lib/wsl/lib",       "/usr/local/nvidia/lib64", "/usr/lib64-nvidia",
      "/run/opengl-driver/lib", "/var/lib/nvidia/lib64",   "/home/kubernetes/bin/nvidia/lib64",
      "/usr/lib/nvidia",        "/usr/lib64/nvidia",       "/usr/lib/x86_64-linux-gnu/nvidia/current",
      "/opt/nvidia/lib64"};
  for (const string& name : names_in(at("/usr/local")))
    if (starts_with(name, "cuda")) {
      folders.push_back("/usr/local/" + name + "/compat");
      folder_libraries(facts, at("/usr/local/" + name + "/lib64"), "unsearched", {"libcudart.so."});
    }
  for (const string& folder : folders) {
    if (is_searched(facts, at(folder))) continue;
    folder_libraries(facts, at(folder), "unsearched", {"libcuda.so", "libnvidia-ml.so"});
  }
}

}  // namespace env_check
