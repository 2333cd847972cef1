// The variables that steer a build: CUDA_HOME, CUDA_PATH, CUDAARCHS, and the link /usr/local/cuda.
#include <fmt/format.h>

#include <algorithm>

#include "env_check/diagnosis.hpp"

namespace env_check {
namespace {

// CUDA_HOME decides for this tutorial, for PyTorch's extensions and many makefiles; PATH for plain nvcc and CMake.
void check_home_against_path(Diagnosis& d) {
  const Facts& f = d.f;
  const Toolkit *home = nullptr, *path = nullptr;
  for (const Toolkit& t : f.toolkits) {
    if (!home && (t.from == "CUDA_HOME" || t.from == "CUDA_PATH")) home = &t;
    if (!path && t.from == "PATH") path = &t;
  }
  if (!home || !path || Version(home->version).release() == Version(path->version).release()) return;
  d.warning("home_and_path_differ",
            home->from + " names another toolkit than PATH: some builds take the one, some the other.",
            {toolkit_text(*home), toolkit_text(*path)},
            {fmt::format("export PATH={}/bin:$PATH   # both {}", home->root, home->version),
             fmt::format("# or: export {}={}   # both {}", home->from, path->root, path->version)});
}

void check_homes(Diagnosis& d) {  // case 64
  const Facts& f = d.f;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string* value = f.env(name);
    if (!value) continue;
    const Lines& valid = f.homes_with_nvcc;
    const bool good = std::find(valid.begin(), valid.end(), name) != valid.end();
    if (good) continue;
    std::string why = "there is no bin/nvcc in it";
    if (value->empty()) why = "it is empty";
    if (!value->empty() && (value->front() == ':' || value->front() == ' ')) why = "it starts with a stray character";
    if (value->size() > 4 && value->substr(value->size() - 4) == "/bin")
      why = "it ends in /bin, but names the folder above";
    Lines fix = {fmt::format("unset {}", name)};
    if (const Toolkit* t = build_toolkit(f)) fix = {fmt::format("export {}={}", name, t->root)};
    // An empty one is taken as not set by CMake, PyTorch and this tutorial; makefiles may look into /bin.
    d.add(value->empty() ? Severity::kNote : Severity::kWarning, "cuda_home_wrong",
          fmt::format("{} does not name a toolkit.", name), {d.env_text(name), why}, fix);
  }
  const std::string* cudacxx = f.env("CUDACXX");
  if (cudacxx && !cudacxx->empty() && (f.toolkits.empty() || f.toolkits[0].from != "CUDACXX"))
    d.error("cudacxx_wrong", "CUDACXX names no program: CMake stops there and looks for no other nvcc.",
            {d.env_text("CUDACXX")}, {"unset CUDACXX", "# or: export CUDACXX=<path of nvcc>"});
  if (f.usr_local_cuda == "dangling") {
    Lines fix = {"sudo rm /usr/local/cuda"};
    for (const Toolkit& t : f.toolkits)
      if (t.root.rfind("/usr/local/cuda-", 0) == 0 && fix.size() == 1)
        fix = {"sudo ln -sfn " + t.root + " /usr/local/cuda"};
    d.warning("cuda_link_dangling", "/usr/local/cuda is a link to a toolkit that is gone.",
              {"/usr/local/cuda points nowhere"}, fix);
  }
}

void check_arch_variable(Diagnosis& d, const Toolkit* t) {
  const Facts& f = d.f;
  const std::string* list = f.env("CUDAARCHS");
  if (!list) return;
  const Version version(t ? t->version : "");
  const auto archs = t ? archs_of(*t) : std::nullopt;
  const std::string good = cuda_architectures(f);
  const Lines fix = {"export CUDAARCHS=\"" + (good.empty() ? "80;90" : good) + "\""};
  for (const std::string& item : list_items(*list, ';')) {
    const std::string arch = item.substr(0, item.find('-'));
    if (arch == "native") {  // case 51
      if (!d.works)
        d.error("native_without_gpu", "The architecture \"native\" asks the card, and no card answers.",
                {d.env_text("CUDAARCHS")}, fix);
      else if (version.known() && version < Version(11, 6))
        d.error("native_unknown", "This nvcc does not know -arch=native; CUDA 11.6 and later do.",
                {toolkit_text(*t), d.env_text("CUDAARCHS")}, fix);
      continue;
    }
    if (arch.empty() || !std::isdigit(static_cast<unsigned char>(arch[0]))) continue;
    const Version cmake(f.system.cmake);
    if (arch.back() == 'f' && cmake.known() && cmake < Version(3, 26))  // case 53
      d.error(
          "cmake_too_old_for_arch", "This CMake does not know the spelling of family architectures.",
          {d.env_text("CUDAARCHS"), "cmake " + f.system.cmake},
          {"# a newer CMake, or:",
           fmt::format(
               "cmake -DCMAKE_CUDA_ARCHITECTURES=OFF -DCMAKE_CUDA_FLAGS=\"-gencode arch=compute_{0},code=sm_{0}\" …",
               arch)});
    if (archs && !archs->beyond_table &&
        std::find(archs->archs.begin(), archs->archs.end(), arch) == archs->archs.end())
      d.error("arch_list_unsupported", "The list of architectures names one that this nvcc does not compile for.",
              {d.env_text("CUDAARCHS"), "not known: " + arch, toolkit_text(*t)}, fix);
  }
}

// "8.6;9.0+PTX", "8.6 12.0a", also names such as "Ampere"
void check_torch_list(Diagnosis& d, const Toolkit* t) {
  const std::string* list = d.f.env("TORCH_CUDA_ARCH_LIST");
  const auto archs = t ? archs_of(*t) : std::nullopt;
  if (!list || !archs || archs->beyond_table) return;
  std::string text = *list;
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == ' ' || c == ','; }, ';');
  Lines unknown, good;
  for (std::string item : list_items(text, ';')) {
    item = item.substr(0, item.find('+'));
    const Version number(item);
    if (number.parts.size() != 2 || number.minor() > 9) continue;
    const int arch = number.major() * 10 + number.minor();
    if (!archs->has(arch)) unknown.push_back(item);
  }
  if (unknown.empty()) return;
  for (const Card& card : cards_of(d.f)) good.push_back(fmt::format("{}.{}", card.arch / 10, card.arch % 10));
  d.warning(
      "torch_list_unsupported",
      "PyTorch's list of architectures names one that this nvcc does not compile for: extensions cannot be built.",
      {d.env_text("TORCH_CUDA_ARCH_LIST"), "not known: " + join(unknown), toolkit_text(*t)},
      {good.empty() ? "unset TORCH_CUDA_ARCH_LIST" : "export TORCH_CUDA_ARCH_LIST=\"" + join(good, ";") + "\""});
}

}  // namespace

void check_variables(Diagnosis& d) {
  check_homes(d);
  check_home_against_path(d);
  check_arch_variable(d, build_toolkit(d.f));
  check_torch_list(d, build_toolkit(d.f));
}

}  // namespace env_check
