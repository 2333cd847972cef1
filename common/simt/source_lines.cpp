#include "common/simt/source_lines.hpp"

#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "common/simt/counts.hpp"

namespace simt {
namespace {

// Where the program was loaded: what addr2line wants is counted from there.
uintptr_t find_load_address() {
  uintptr_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<uintptr_t*>(out) = info->dlpi_addr;
        return 1;  // the first one is the program itself
      },
      &base);
  return base;
}
const uintptr_t load_address = find_load_address();

bool of_the_kernel(const std::string& file) {
  const size_t common = file.rfind("common/");
  const bool header = file.size() > 4 && file.compare(file.size() - 4, 4, ".hpp") == 0;
  return file != "??" && file.rfind("/usr/", 0) != 0 && !(header && common != std::string::npos);
}

// "path/file.cuh:12 (discriminator 3)"
SourceLine parse(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {"??", 0};
  return {text.substr(0, colon), std::atoi(text.c_str() + colon + 1)};
}

// One line of output for each frame; `-a` puts the address in front of those of each.
std::map<uintptr_t, SourceLine> run_addr2line(const std::vector<uintptr_t>& offsets) {
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return {};
  program[length] = 0;
  std::string command = fmt::format("addr2line -a -i -e '{}'", program);
  for (const uintptr_t offset : offsets) command += fmt::format(" {:#x}", offset);
  std::map<uintptr_t, SourceLine> lines;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + " 2>/dev/null").c_str(), "r"), pclose);
  if (!pipe) return {};
  char text[4096];
  uintptr_t offset = 0;
  while (std::fgets(text, sizeof text, pipe.get())) {
    if (text[0] == '0' && text[1] == 'x') {
      offset = std::strtoull(text, nullptr, 16);
      continue;
    }
    const SourceLine frame = parse(text);
    SourceLine& chosen = lines[offset];
    if (chosen.file.empty() || (!of_the_kernel(chosen.file) && of_the_kernel(frame.file))) chosen = frame;
  }
  return lines;
}

}  // namespace

uint32_t program_offset(const void* address) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address) - load_address);
}
const void* program_address(uint32_t offset) { return reinterpret_cast<const void*>(load_address + offset); }

std::vector<SourceLine> source_lines(const std::vector<const void*>& return_addresses) {
  static std::mutex mutex;
  static std::map<uintptr_t, SourceLine> known;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto offset_of = [](const void* address) { return uintptr_t{program_offset(address)} - 1; };
  std::vector<uintptr_t> unknown;
  const auto look_up = [&] {
    for (const auto& [offset, line] : run_addr2line(unknown)) known[offset] = line;
    unknown.clear();
  };
  for (const void* address : return_addresses) {
    if (!known.emplace(offset_of(address), SourceLine{"??", 0}).second) continue;
    unknown.push_back(offset_of(address));
    if (unknown.size() == 4000) look_up();  // a command line has its limits
  }
  if (!unknown.empty()) look_up();
  std::vector<SourceLine> lines;
  for (const void* address : return_addresses) lines.push_back(known[offset_of(address)]);
  return lines;
}

std::string location(const void* return_address, Site otherwise) {
  if (!counting()) return fmt::format("{}:{}", otherwise.file, otherwise.line);
  const SourceLine line = source_lines({return_address})[0];
  return fmt::format("{}:{}", line.file, line.line);
}

}  // namespace simt
