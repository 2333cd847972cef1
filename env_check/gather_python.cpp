// PyTorch, if the first python3 has it. torch is not imported where its files say enough: that would take seconds.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "env_check/elf_file.hpp"
#include "env_check/files.hpp"
#include "env_check/gather_parts.hpp"

namespace env_check {

using nlohmann::json;
using std::string;

namespace {
constexpr char kScript[] = R"py(
import sys
sys.path = [folder for folder in sys.path if folder]  # not the current folder: a json.py or torch there is no program's
import importlib.util, json, os
out = {"python": sys.executable}
try:
    spec = importlib.util.find_spec("torch")
    if spec and spec.origin:
        out["torch"] = folder = os.path.dirname(spec.origin)
        names, version_file = {}, os.path.join(folder, "version.py")
        library = os.path.join(folder, "lib", "libtorch_cuda.so")
        if os.path.exists(version_file):
            exec(open(version_file).read(), names)
        if "__version__" in names and (not names.get("cuda") or os.path.exists(library)):
            out["version"], out["cuda"], out["library"] = names["__version__"], names.get("cuda"), library
        else:
            import torch
            out["version"], out["cuda"] = torch.__version__, torch.version.cuda
            out["archs"] = list(torch.cuda.get_arch_list())
except BaseException as error:
    out["error"] = type(error).__name__ + ": " + str(error)[:300]
for key in ("version", "cuda"):
    if out.get(key) is not None:
        out[key] = str(out[key])
sys.stdout.write("\n" + json.dumps(out) + "\n")
)py";

string text_of(const json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_string() ? it->get<string>() : "";
}

// "sm_90a", "compute_120" → device code
void add_arch(std::vector<DeviceCode>& code, const string& name) {
  DeviceCode c;
  c.kind = starts_with(name, "compute_") ? "ptx" : "cubin";
  const size_t underscore = name.find('_');
  if (underscore == string::npos || code.size() >= 200) return;
  string number = name.substr(underscore + 1);
  if (!number.empty() && (number.back() == 'a' || number.back() == 'f')) {
    c.suffix = number.back();
    number.pop_back();
  }
  c.arch = integer(number).value_or(0);
  c.count = 1;
  if (c.arch > 0 && c.arch < 10000) code.push_back(c);
}
}  // namespace

std::vector<string> python_question(const GatherOptions& options) {
  if (!options.python) return {};
  string python;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const string folder = env_or_empty(name);
        python.empty() && !folder.empty() && is_program(folder + "/bin/python3"))
      python = folder + "/bin/python3";
  if (python.empty()) python = find_on_path("python3");
  if (python.empty()) return {};
  return {python, "-B", "-c", kScript};  // -B: leaves no __pycache__ behind
}

void gather_python(Facts& facts, const string& answer) {
  json j;
  for (const string& line : split(answer, '\n'))  // whatever torch prints besides is not ours
    if (json parsed = json::parse(line, nullptr, false); parsed.is_object() && parsed.contains("python")) j = parsed;
  if (!j.is_object()) return;
  Python& p = facts.python;
  p.path = text_of(j, "python");
  p.torch = text_of(j, "torch");
  p.error = text_of(j, "error");
  p.version = text_of(j, "version");
  p.cuda = text_of(j, "cuda");
  if (const string library = text_of(j, "library"); !library.empty() && !p.cuda.empty())
    p.code = read_binary(library).binary.code;
  if (const auto archs = j.find("archs"); archs != j.end() && archs->is_array())
    for (const json& arch : *archs)
      if (arch.is_string()) add_arch(p.code, arch.get<string>());
}

}  // namespace env_check
