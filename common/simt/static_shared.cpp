#include "common/simt/static_shared.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <unordered_set>

namespace simt {
namespace {

// "_ZZ4gemmPKfE4tile" is the variable `tile` of the function "_Z4gemmPKf".
struct Variable {
  std::string symbol;
  StaticArray place;
  bool belongs_to(const std::string& function) const {
    return function.rfind("_Z", 0) == 0 && symbol.rfind("_Z" + function + "E", 0) == 0;
  }
};

// The thread_local variables that were declared inside of functions, other than the executor's own.
struct Symbols {
  std::vector<Variable> variables;
  std::unordered_set<uintptr_t> guards;
};

Symbols read_symbols() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string program((std::istreambuf_iterator<char>(file)), {});
  const auto at = [&](size_t offset, auto& header) {
    if (offset + sizeof header > program.size()) return false;
    std::memcpy(&header, program.data() + offset, sizeof header);
    return true;
  };
  Symbols found;
  ElfW(Ehdr) head;
  ElfW(Shdr) symbols, names;
  if (!at(0, head)) return found;
  for (size_t section = 0; section < head.e_shnum; ++section) {
    if (!at(head.e_shoff + section * sizeof symbols, symbols) || symbols.sh_type != SHT_SYMTAB) continue;
    if (!at(head.e_shoff + symbols.sh_link * sizeof names, names)) continue;
    ElfW(Sym) symbol;
    for (size_t i = 0; i < symbols.sh_size / sizeof symbol; ++i) {
      if (!at(symbols.sh_offset + i * sizeof symbol, symbol) || (symbol.st_info & 15) != STT_TLS) continue;
      const std::string name = program.c_str() + names.sh_offset + symbol.st_name;
      if (name.rfind("_ZZ", 0) == 0 && name.rfind("_ZZN4simt", 0) != 0)
        found.variables.push_back({name, {symbol.st_value, symbol.st_size}});
      else if (name.rfind("_ZGVZ", 0) == 0)
        found.guards.insert(symbol.st_value);
    }
  }
  return found;
}

const Symbols& symbols() {
  static const Symbols all = read_symbols();
  return all;
}

}  // namespace

bool is_guard(uintptr_t offset) { return symbols().guards.count(offset) > 0; }

ThreadLocals thread_locals() {
  ThreadLocals result;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (info->dlpi_phdr[i].p_type == PT_TLS)
            *static_cast<ThreadLocals*>(out) = {reinterpret_cast<uintptr_t>(info->dlpi_tls_data),
                                                info->dlpi_phdr[i].p_memsz};
        return 1;  // the first one is the program itself
      },
      &result);
  return result;
}

StaticShared static_shared(const void* kernel) {
  static std::vector<Variable> unclaimed = symbols().variables;
  static std::vector<StaticArray> of_functions;
  static std::map<const void*, std::vector<StaticArray>> of_kernels;
  const auto [known, first_launch] = of_kernels.try_emplace(kernel);
  if (first_launch) {
    Dl_info info;
    const std::string function = dladdr(kernel, &info) && info.dli_sname ? info.dli_sname : "";
    std::vector<Variable> others;
    of_functions.clear();
    for (const Variable& variable : unclaimed) {
      const bool own = variable.belongs_to(function);
      (own ? known->second : of_functions).push_back(variable.place);
      if (!own) others.push_back(variable);
    }
    unclaimed = std::move(others);
  }
  return {&known->second, &of_functions};
}

}  // namespace simt
