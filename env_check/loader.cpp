// Which CUDA libraries a program would load, found the way ld.so does it, but without running anything.
#include <algorithm>
#include <set>

#include "env_check/elf_file.hpp"
#include "env_check/files.hpp"
#include "env_check/gather.hpp"

namespace env_check {

using std::string;
using std::vector;

namespace {

bool is_cuda(const string& name) {
  for (const char* start : {"libcuda", "libcublas", "libcudnn", "libcufft", "libcurand", "libcusolver", "libcusparse",
                            "libcupti", "libnv", "libnccl", "libnpp"})
    if (starts_with(name, start)) return true;
  return false;
}

// The C and C++ libraries themselves lead nowhere of interest.
bool is_system(const string& name) {
  for (const char* start : {"ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libstdc++.so",
                            "libgcc_s.so", "libgomp.so"})
    if (starts_with(name, start)) return true;
  return false;
}

struct Object {
  string path;
  vector<string> rpath, runpath;  // folders
  int loaded_by = -1;
};

void replace_all(string& text, const string& what, const string& with) {
  for (size_t at = text.find(what); at != string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

class Loader {
 public:
  Loader(const Facts& facts, const Binary& program) : f_(facts), program_(program) {}

  // The objects are visited breadth first, each library name once, as the loader does it.
  void load(const ElfDetails& program) {
    // Of the program itself $ORIGIN is the folder of the file behind the links; of a library, where it was found.
    const string real = real_path(program.binary.path);
    add_object(program, real.empty() ? program.binary.path : real, -1);
    vector<vector<string>> needed = {program.needed};
    for (size_t i = 0; i < objects_.size() && objects_.size() < 300; ++i)
      for (const string& name : needed[i]) {
        if (is_system(base_name(name)) || !seen_.insert(name).second) continue;
        const NeededLibrary found = find(name, static_cast<int>(i));
        if (is_cuda(base_name(name))) needed_.push_back(found);
        if (found.path.empty()) continue;
        const ElfDetails details = read_binary(found.path, /*device_code=*/false);
        add_object(details, found.path, static_cast<int>(i));
        needed.push_back(details.needed);
      }
    const bool runtime_inside = program.binary.kind == "program" && !program.binary.code.empty();
    const bool uses_cuda = runtime_inside || std::any_of(needed_.begin(), needed_.end(), [](const NeededLibrary& n) {
                             return starts_with(n.name, "libcudart.so");
                           });
    if (!uses_cuda || seen_.count("libcuda.so.1")) return;
    NeededLibrary driver = find("libcuda.so.1", 0);
    driver.by = "the CUDA runtime, at its first call";
    needed_.push_back(driver);
  }

  vector<NeededLibrary> take() { return std::move(needed_); }

 private:
  bool usable(const string& file) const {
    const ElfKind kind = elf_kind(file);
    return kind.bits == program_.elf_bits && kind.machine == program_.machine;
  }

  void add_object(const ElfDetails& file, const string& path, int loaded_by) {
    const string triple = "lib/" + program_.machine + "-linux-gnu";
    const auto folders = [&](string text) {
      for (const char* name : {"${ORIGIN}", "$ORIGIN"}) replace_all(text, name, parent(path));
      for (const char* name : {"${LIB}", "$LIB"}) replace_all(text, name, is_folder("/" + triple) ? triple : "lib64");
      return search_folders(text);
    };
    objects_.push_back({file.binary.path, folders(file.rpath), folders(file.runpath), loaded_by});
  }

  // Every folder may have variants for newer processors, which come first.
  string in_folders(const vector<string>& folders, const string& name) const {
    for (const string& folder : folders) {
      for (const string& variant : f_.system.hwcaps)
        if (const string file = folder + "/glibc-hwcaps/" + variant + "/" + name; usable(file)) return file;
      if (usable(folder + "/" + name)) return folder + "/" + name;
    }
    return "";
  }

  // ld.so(8): LD_PRELOAD; RPATH of the object that asks and of those that loaded it (none of it where the object has a
  // RUNPATH); LD_LIBRARY_PATH; its RUNPATH; the cache; the default folders. A name with a slash is a path.
  NeededLibrary find(const string& name, int asks) const {
    const Object& object = objects_[static_cast<size_t>(asks)];
    vector<std::pair<string, string>> found;  // path and why, best first
    const auto add = [&](const string& path, const char* why) {
      if (!path.empty()) found.push_back({path, why});
    };
    if (contains(name, "/")) {
      add(usable(name) ? name : "", "path in the file");
      return chosen(name, object, found);
    }
    if (const string* preload = f_.env("LD_PRELOAD"))
      for (const string& colon : split(*preload, ':'))
        for (const string& file : split(colon, ' '))
          if (base_name(file) == name && usable(file)) add(file, "LD_PRELOAD");
    if (object.runpath.empty())
      for (int i = asks; i >= 0; i = objects_[static_cast<size_t>(i)].loaded_by)
        if (objects_[static_cast<size_t>(i)].runpath.empty())
          add(in_folders(objects_[static_cast<size_t>(i)].rpath, name), "RPATH");
    if (const string* path = f_.env("LD_LIBRARY_PATH"))
      add(in_folders(search_folders(*path, ":;"), name), "LD_LIBRARY_PATH");
    add(in_folders(object.runpath, name), "RUNPATH");
    for (const Library& have : f_.libraries)
      if (have.where == "cache" && have.name == name && usable(have.path)) add(have.path, "cache");
    const string triple = f_.system.machine + "-linux-gnu";
    add(in_folders({"/lib/" + triple, "/usr/lib/" + triple, "/lib64", "/usr/lib64", "/lib", "/usr/lib"}, name),
        "default folder");
    return chosen(name, object, found);
  }

  NeededLibrary chosen(const string& name, const Object& by, const vector<std::pair<string, string>>& found) const {
    NeededLibrary out;
    out.name = base_name(name);
    if (&by != &objects_[0]) out.by = by.path;
    if (found.empty()) return out;
    out.path = found[0].first;
    out.why = found[0].second;
    out.real = real_path(out.path);
    for (const auto& [path, why] : found)
      if (out.instead.empty() && real_path(path) != out.real) out.instead = path + " (" + why + ")";
    return out;
  }

  const Facts& f_;
  const Binary& program_;
  vector<Object> objects_;
  std::set<string> seen_;
  vector<NeededLibrary> needed_;
};

}  // namespace

Binary gather_binary(const string& path, const Facts& facts) {
  ElfDetails details = read_binary(path);
  Loader loader(facts, details.binary);
  if (details.binary.elf_bits != 0) loader.load(details);
  details.binary.needed = loader.take();
  return details.binary;
}

}  // namespace env_check
