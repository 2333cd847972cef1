// Every nvcc there is, in the order in which the tutorial's build takes them, and the host compiler it would call.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <set>

#include "env_check/child.hpp"
#include "env_check/elf_file.hpp"
#include "env_check/files.hpp"
#include "env_check/gather_parts.hpp"
#include "env_check/tables.hpp"

namespace env_check {

using std::string;
using std::vector;

namespace {

// "Cuda compilation tools, release 13.0, V13.0.88"
string release_of(const string& text) {
  const size_t at = text.find("release ");
  if (at == string::npos) return "";
  const string exact = version_after(text.substr(at), ", V");
  return exact.empty() ? version_after(text, "release ") : exact;
}

// What nvcc would do, in its own words ("#$ TOP=…", "#$ INCLUDES=…"): only it knows where a wrapper script leads and
// which folders it searches.
struct Plan {
  string top;
  vector<string> includes, libraries;
  bool known = false;
};

Plan plan_of(const string& text) {
  Plan plan;
  static const std::regex folder(R"re("-(?:I|L|isystem" ")([^"]{1,1000})")re");
  for (const string& whole : split(text, '\n')) {
    const string line = whole.substr(0, 8000);
    if (!starts_with(line, "#$ ")) continue;
    plan.known = true;
    if (starts_with(line, "#$ TOP=")) plan.top = real_path(trimmed(line.substr(7)));
    const bool includes = starts_with(line, "#$ INCLUDES=") || starts_with(line, "#$ SYSTEM_INCLUDES=");
    if (!includes && !starts_with(line, "#$ LIBRARIES=")) continue;
    for (std::sregex_iterator it(line.begin(), line.end(), folder), end; it != end; ++it)
      (includes ? plan.includes : plan.libraries).push_back((*it)[1]);
  }
  for (const string& path : split(env_or_empty("CPATH") + ":" + env_or_empty("CPLUS_INCLUDE_PATH"), ':'))
    if (!path.empty()) plan.includes.push_back(path);
  for (const string& path : split(env_or_empty("LIBRARY_PATH"), ':'))
    if (!path.empty()) plan.libraries.push_back(path);
  // Where the host compiler and linker look by themselves.
  plan.includes.push_back("/usr/include");
  for (const char* path : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"})
    plan.libraries.push_back(path);
  return plan;
}

string file_in(const vector<string>& folders, const string& name) {
  for (const string& folder : folders)
    if (exists(folder + "/" + name)) return folder + "/" + name;
  return "";
}

// Whether an exception specification stands after a declaration, as newer C libraries demand.
std::optional<bool> guarded(const string& header, const string& declaration) {
  const size_t at = header.find(declaration), end = header.find(';', at);
  if (at == string::npos || end == string::npos) return std::nullopt;
  const size_t after = at + declaration.size();
  return !trimmed(header.substr(after, end - after)).empty();
}

void describe(Toolkit& t, const string& version_text, const string& plan_text, const string& archs) {
  t.version = release_of(version_text);
  const Plan plan = plan_of(plan_text);
  if (!plan.top.empty()) t.root = plan.top;
  if (plan.known && !t.version.empty()) {
    t.headers = !file_in(plan.includes, "cuda_runtime.h").empty();
    t.runtime =
        !file_in(plan.libraries, "libcudart_static.a").empty() || !file_in(plan.libraries, "libcudart.so").empty();
  }
  vector<string> folders = plan.known ? plan.includes : vector<string>();
  folders.push_back(t.root + "/include");
  for (const string& target : names_in(t.root + "/targets", 100))
    folders.push_back(t.root + "/targets/" + target + "/include");
  if (const string header = file_in(folders, "crt/host_config.h"); !header.empty())
    t.gcc_max = integer(version_after(read_text(header, 1 << 20), "__GNUC__ > "));
  if (const string header = file_in(folders, "crt/math_functions.h"); !header.empty()) {
    const string text = read_text(header, 4 << 20);
    t.cospi_guarded = guarded(text, " cospi(double x)");
    t.rsqrt_guarded = guarded(text, " rsqrt(double x)");
  }
  for (const string& word : split(archs, '\n'))  // "sm_75"
    if (starts_with(word, "sm_") && word.size() < 12 && t.archs.size() < 100)
      t.archs.push_back(trimmed(word).substr(3));
}

// Starts every nvcc at once, then listens.
void ask_all(vector<Toolkit>& toolkits, const GatherOptions& options) {
  struct Asked {
    Child version, plan, archs, ptxas;
  };
  vector<Asked> asked;
  for (const Toolkit& t : toolkits)
    asked.push_back({Child::program({t.nvcc, "--version"}, true),
                     Child::program({t.nvcc, "--dryrun", "-E", "-x", "cu", "/dev/null"}, true),
                     Child::program({t.nvcc, "--list-gpu-code"}),
                     Child::program({t.root + "/bin/ptxas", "--version"})});
  for (size_t i = 0; i < toolkits.size(); ++i) {
    Toolkit& t = toolkits[i];
    const Child::Outcome said = asked[i].version.finish(options.program_limit);
    describe(t, said.output, asked[i].plan.finish(options.program_limit).output,
             asked[i].archs.finish(options.program_limit).output);
    if (t.version.empty())
      t.error = said.timed_out        ? "it did not answer"
                : said.output.empty() ? fmt::format("it left with status {}", said.exit_code)
                                      : trimmed(split(said.output, '\n')[0]).substr(0, 200);
    t.ptxas = release_of(asked[i].ptxas.finish(options.program_limit).output);
    if (t.ptxas.empty()) t.ptxas = release_of(output_of({t.root + "/bin/ptxas", "--version"}, options.program_limit));
  }
}

Compiler describe_compiler(const string& path, std::chrono::milliseconds limit) {
  Compiler c;
  c.path = path;
  if (path.empty()) return c;
  const string text = output_of({path, "--version"}, limit);
  c.kind = contains(text, "clang version") ? "clang" : "gcc";
  c.version = version_after(text, c.kind == "clang" ? "clang version" : ") ");  // "g++ (Debian 12.2.0-14) 12.2.0"
  if (c.version.empty() && c.kind == "gcc") c.version = Version(output_of({path, "-dumpfullversion"}, limit)).text();
  return c;
}

void compilers(Facts& facts, const GatherOptions& options) {
  string choice, from;
  const auto consider = [&](const string& value, const char* name) {
    if (!choice.empty() || value.empty()) return;
    choice = value;
    from = name;
  };
  consider(env_or_empty("CUDAHOSTCXX"), "CUDAHOSTCXX");
  static const std::regex ccbin(R"((?:-ccbin|--compiler-bindir)[ =]+([^\s]+))");
  for (const char* name : {"NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"}) {
    std::smatch match;
    const string flags = env_or_empty(name).substr(0, 4096);
    if (std::regex_search(flags, match, ccbin)) consider(match[1], name);
  }
  consider(env_or_empty("NVCC_CCBIN"), "NVCC_CCBIN");
  consider("g++", "PATH");
  if (is_folder(choice)) choice += "/g++";
  facts.compiler = describe_compiler(find_on_path(choice), options.program_limit);
  facts.compiler.from = from;
  for (int major = 16; major >= 7; --major) {
    const string path = find_on_path(fmt::format("g++-{}", major));
    if (!path.empty()) facts.other_compilers.push_back({path, "gcc", std::to_string(major), "PATH"});
  }
}

// NVIDIA's wheels: site-packages/nvidia/cu13/bin/nvcc, before CUDA 13 nvidia/cuda_nvcc/bin/nvcc.
vector<string> wheel_nvccs(const string& environment) {
  vector<string> paths;
  if (environment.empty()) return paths;
  for (const string& python : names_in(environment + "/lib", 100)) {
    const string folder = environment + "/lib/" + python + "/site-packages/nvidia/";
    for (const string& part : names_in(folder, 100)) paths.push_back(folder + part + "/bin/nvcc");
  }
  return paths;
}

// hpc_sdk/Linux_x86_64/25.7/cuda/12.9/bin/nvcc
vector<string> hpc_sdk_nvccs(const string& root) {
  vector<string> paths;
  for (const string& platform : names_in(root, 20))
    for (const string& release : names_in(root + "/" + platform, 100)) {
      const string folder = root + "/" + platform + "/" + release + "/cuda/";
      for (const string& version : names_in(folder, 20)) paths.push_back(folder + version + "/bin/nvcc");
    }
  return paths;
}

}  // namespace

void gather_toolkit_answers(Facts& facts, const string& text) {
  facts.toolkits.emplace_back();
  describe(facts.toolkits.back(), text, text, text);
}

void gather_toolkits(Facts& facts, const GatherOptions& options) {
  const auto at = [&](const string& path) { return options.root + path; };
  std::set<string> seen;
  const auto add = [&](const string& nvcc, const string& from) {
    if (nvcc.empty() || !is_program(nvcc) || facts.toolkits.size() >= 50) return;
    const string real = real_path(nvcc);
    if (!seen.insert(real.empty() ? nvcc : real).second) return;
    Toolkit t;
    t.nvcc = nvcc;
    t.from = from;
    t.root = parent(parent(real.empty() ? nvcc : real));
    t.machine = elf_kind(nvcc).machine;
    facts.toolkits.push_back(t);
  };
  facts.path_nvcc = find_on_path("nvcc");
  // The order of cmake/cuda_architectures.cmake.
  const string cudacxx = trimmed(env_or_empty("CUDACXX"));  // options may follow the name
  add(find_on_path(cudacxx.substr(0, cudacxx.find(' '))), "CUDACXX");
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const string home = env_or_empty(name); is_program(home + "/bin/nvcc")) {
      facts.homes_with_nvcc.push_back(name);
      add(home + "/bin/nvcc", name);
    }
  for (const string& folder : split(env_or_empty("PATH"), ':'))
    if (!folder.empty()) add(folder + "/nvcc", "PATH");
  for (const char* folder : {"/usr/local/cuda", "/opt/cuda"}) add(at(folder) + "/bin/nvcc", folder);
  vector<string> versions;
  for (const string& name : names_in(at("/usr/local")))
    if (starts_with(name, "cuda-")) versions.push_back(name.substr(5));
  std::sort(versions.begin(), versions.end(), [](const string& a, const string& b) { return Version(a) > Version(b); });
  for (const string& version : versions)
    add(at("/usr/local/cuda-" + version) + "/bin/nvcc", "/usr/local/cuda-" + version);
  if (const string prefix = env_or_empty("CONDA_PREFIX"); !prefix.empty()) add(prefix + "/bin/nvcc", "CONDA_PREFIX");
  for (const string& nvcc : wheel_nvccs(env_or_empty("VIRTUAL_ENV"))) add(nvcc, "pip");
  for (const string& nvcc : hpc_sdk_nvccs(at("/opt/nvidia/hpc_sdk"))) add(nvcc, "HPC SDK");
  for (const char* folder : {"/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit"}) add(at(folder) + "/bin/nvcc", folder);

  struct stat link {};
  const string symlink = at("/usr/local/cuda");
  facts.usr_local_cuda = lstat(symlink.c_str(), &link) != 0 ? "missing" : exists(symlink) ? "ok" : "dangling";

  ask_all(facts.toolkits, options);
  vector<Toolkit> distinct;  // a wrapper script and the nvcc behind it are one
  for (const Toolkit& t : facts.toolkits)
    if (std::none_of(distinct.begin(), distinct.end(), [&](const Toolkit& have) { return have.root == t.root; }))
      distinct.push_back(t);
  facts.toolkits = distinct;
  if (const string ptxas = find_on_path("ptxas"); !ptxas.empty())
    facts.path_ptxas = release_of(output_of({ptxas, "--version"}, options.program_limit));
  compilers(facts, options);
  if (const string cmake = find_on_path("cmake"); !cmake.empty())
    facts.system.cmake = version_after(output_of({cmake, "--version"}, options.program_limit), "version ");
  facts.nvidia_smi = find_on_path("nvidia-smi");
}

}  // namespace env_check
