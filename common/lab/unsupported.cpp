#include "common/lab/unsupported.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

namespace lab {
namespace {

struct Rule {
  const char *construct, *pattern, *instead;
};

constexpr const char* kLaunch = "write launch(kernel, grid, block, lab.how(), args...), from run() on the host";

const Rule kRules[] = {
    {"a texture or surface", R"(\b(texture\s*<|tex[123]D\w*|surf[123]D\w*|cuda(Texture|Surface)Object_t))",
     "read global memory through a plain pointer or __ldg(&p[i])"},
    {"cooperative groups", R"(\bcooperative_groups\b|\bcg::)",
     "use __syncthreads(), __syncwarp(mask) and __shfl_*_sync; a barrier of the whole grid is the end of a kernel"},
    {"inline assembly", R"(\b(__)?asm(__)?\b)",
     "use the named functions of common/ptx.hpp (cp_async_16, ldmatrix_x4, mma_m16n8k16_bf16, …) or plain C++"},
    {"<<<grid, block>>>", R"(<<<)", kLaunch},
    {"cudaLaunchKernel", R"(\bcudaLaunch\w*)", kLaunch},
    {"extern __shared__", R"(\bextern\s+__shared__)",
     "call dynamic_shared<T>() in the kernel and launch with lab.how().smem(bytes)"},
    {"the wmma namespace", R"(\b(nvcuda|wmma)::)", "use mma_m16n8k16_bf16 and ldmatrix_x4 of common/ptx.hpp"},
    {"cuda:: (libcu++)", R"(\bcuda::(?!std::))", "use atomicAdd and its kin, and cp_async_* of common/ptx.hpp"},
    {"CUB or Thrust", R"(\b(cub|thrust)::)", "write the reduction or scan with __shfl_*_sync and shared memory"},
    {"__constant__ or __managed__ memory", R"(\b__(constant|managed)__)", "pass a pointer or a value to the kernel"},
    {"a cluster of blocks", R"(\b__cluster_dims__|\b(map_shared_rank|cluster\.sync)\b)",
     "keep to one block, or pass through global memory between two kernels"},
    {"a clock", R"(\b(clock|clock64|globaltimer)\s*\()", "leave it out: the executor counts, it has no time"},
    {"the runtime's memory calls", R"(\bcuda(Malloc|Free|Mem)\w*)",
     "DeviceBuffer<T> x(count), x.upload(values) and x.to_host() hold device memory"},
    {"a runtime call", R"(\bcuda(Device|Stream|Event|Get|Func|Occupancy|Graph)\w*)",
     "leave it out: launch() checks for errors, and a kernel has run when it returns"},
};

// The source with comments, strings and characters blanked; every line keeps its place.
std::string code_of(const std::string& source) {
  static const std::regex blank(R"(//[^\n]*|/\*[^]*?\*/|"(\\.|[^"\\\n])*"|'(\\.|[^'\\\n])+')");
  std::string code = source;
  for (std::sregex_iterator it(source.begin(), source.end(), blank), end; it != end; ++it)
    for (size_t i = 0; i < size_t(it->length()); ++i)
      if (char& c = code[size_t(it->position()) + i]; c != '\n') c = ' ';
  return code;
}

int line_at(const std::string& text, size_t position) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(position), '\n'));
}

// The position of a launch inside the body of a kernel or device function, or npos.
size_t launch_on_device(const std::string& code) {
  static const std::regex head(R"(\b__(global|device)__\b[^;{]*\{)"), start(R"(\blaunch\s*\(|<<<)");
  for (std::sregex_iterator it(code.begin(), code.end(), head), end; it != end; ++it) {
    const size_t body = size_t(it->position() + it->length());
    size_t last = body;
    for (int depth = 1; last < code.size() && depth > 0; ++last)
      depth += code[last] == '{' ? 1 : code[last] == '}' ? -1 : 0;
    std::smatch match;
    const std::string text = code.substr(body, last - body);
    if (std::regex_search(text, match, start)) return body + size_t(match.position());
  }
  return std::string::npos;
}

}  // namespace

std::vector<Unsupported> unsupported(const std::string& source) {
  const std::string code = code_of(source);
  std::vector<Unsupported> found;
  for (const Rule& rule : kRules) {
    std::smatch match;
    if (std::regex_search(code, match, std::regex(rule.pattern)))
      found.push_back({line_at(code, size_t(match.position())), rule.construct, rule.instead});
  }
  if (const size_t at = launch_on_device(code); at != std::string::npos)
    found.push_back({line_at(code, at), "a launch from a kernel (dynamic parallelism)",
                     "launch both kernels from run(), one after the other"});
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  if (found.empty() && !std::regex_search(code, std::regex(R"(\bvoid\s+run\s*\(\s*Lab\s*&)")))
    found.push_back({1, "a file without a run function",
                     "add void run(Lab& lab) { … } that allocates with lab.random(count) and calls launch()"});
  return found;
}

std::string unsupported_text(const std::string& file, const std::vector<Unsupported>& found) {
  std::string text;
  for (const Unsupported& u : found)
    text += fmt::format("{}:{}: {} is not supported here: {}\n", file, u.line, u.construct, u.instead);
  return text;
}

}  // namespace lab
