// The reader of device code: files made here byte by byte, one made by nvcc where there is one, and damaged ones.
#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>

#include "env_check/child.hpp"
#include "env_check/compatibility.hpp"
#include "env_check/elf_file.hpp"
#include "env_check/files.hpp"
#include "env_check/gather.hpp"
#include "env_check/test_harness.hpp"
#include "env_check/test_support.hpp"

using namespace env_check;

namespace {

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string entry(uint16_t kind, uint32_t arch, uint64_t flags, uint16_t isa_major, uint16_t isa_minor,
                  size_t payload = 40) {
  std::string out;
  put<uint16_t>(out, kind), put<uint16_t>(out, 0x101), put<uint32_t>(out, 64), put<uint64_t>(out, payload);
  put<uint32_t>(out, 0), put<uint32_t>(out, 0), put<uint16_t>(out, isa_minor), put<uint16_t>(out, isa_major);
  put<uint32_t>(out, arch), put<uint32_t>(out, 0), put<uint32_t>(out, 0), put<uint64_t>(out, flags);
  out.resize(64 + payload, '\0');
  return out;
}

std::string fatbin(const std::string& entries) {
  std::string out;
  put<uint32_t>(out, 0xBA55ED50), put<uint16_t>(out, 1), put<uint16_t>(out, 16), put<uint64_t>(out, entries.size());
  return out + entries;
}

// An ELF file with the sections "", .nv_fatbin, .shstrtab.
std::string elf(const std::string& device_code) {
  const std::string names(std::string("\0.nv_fatbin\0.shstrtab\0", 22));
  Elf64_Ehdr h{};
  std::memcpy(h.e_ident, ELFMAG, SELFMAG);
  h.e_ident[EI_CLASS] = ELFCLASS64, h.e_ident[EI_DATA] = ELFDATA2LSB;
  h.e_machine = EM_X86_64, h.e_shentsize = sizeof(Elf64_Shdr), h.e_shnum = 3, h.e_shstrndx = 2;
  h.e_shoff = sizeof h + device_code.size() + names.size();
  Elf64_Shdr sections[3] = {};
  sections[1].sh_name = 1, sections[1].sh_type = SHT_PROGBITS, sections[1].sh_offset = sizeof h,
  sections[1].sh_size = device_code.size();
  sections[2].sh_name = 12, sections[2].sh_type = SHT_STRTAB, sections[2].sh_offset = sizeof h + device_code.size(),
  sections[2].sh_size = names.size();
  return std::string(reinterpret_cast<char*>(&h), sizeof h) + device_code + names +
         std::string(reinterpret_cast<char*>(sections), sizeof sections);
}

Binary read(const std::string& content) {
  TemporaryFolder folder;
  return read_binary(folder.write("file", content)).binary;
}

const std::string kSample =
    elf(fatbin(entry(2, 75, 0, 0, 0) + entry(1, 80, 0, 9, 0)) + std::string(8, '\0') +
        fatbin(entry(2, 90, 0x100000, 0, 0) + entry(2, 120, 0x1200000, 0, 0) + entry(2, 75, 0, 0, 0)));

}  // namespace

TEST_CASE("env_check reads kinds, architectures and suffixes of device code") {
  const Binary b = read(kSample);
  CHECK(b.error.empty());
  CHECK(b.machine == "x86_64");
  CHECK(b.elf_bits == 64);
  CHECK(code_list(b.code) == "sm_75, compute_80 (PTX 9.0), sm_90a, sm_120f");
  REQUIRE(b.code.size() == 4);
  CHECK(b.code[0].count == 2);
  CHECK(code_list(read(fatbin(entry(2, 86, 0, 0, 0))).code) == "sm_86");
}

TEST_CASE("env_check reads cubins of both ages and members of an archive") {
  Elf64_Ehdr h{};
  std::memcpy(h.e_ident, ELFMAG, SELFMAG);
  h.e_ident[EI_CLASS] = ELFCLASS64, h.e_ident[EI_DATA] = ELFDATA2LSB, h.e_ident[EI_ABIVERSION] = 8;
  h.e_machine = 190, h.e_flags = 0x7800;
  const auto bytes = [&] { return std::string(reinterpret_cast<char*>(&h), sizeof h); };
  CHECK(code_list(read(bytes()).code) == "sm_120");
  h.e_ident[EI_ABIVERSION] = 7, h.e_flags = 0x560556;
  CHECK(code_list(read(bytes()).code) == "sm_86");

  std::string archive = "!<arch>\n";
  const auto member = [](const std::string& name, const std::string& content) {
    return fmt::format("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", name, 0, 0, 0, 644, content.size()) + content +
           (content.size() % 2 ? "\n" : "");
  };
  archive += member("index/", "odd") + member("a.o/", kSample) + member("b.o/", elf(fatbin(entry(2, 61, 0, 0, 0))));
  const Binary b = read(archive);
  CHECK(b.error.empty());
  CHECK(code_list(b.code) == "sm_75, compute_80 (PTX 9.0), sm_90a, sm_120f, sm_61");
}

TEST_CASE("env_check reads what CUDA 11.8 wrote: compressed cubins and PTX, as its cuobjdump lists them") {
  const Binary b = read_binary(ENV_CHECK_SAMPLES "/cuda_11_8.fatbin").binary;
  CHECK(b.error.empty());
  CHECK(b.kind == "fatbin");
  CHECK(code_list(b.code) == "sm_80, sm_90, compute_52 (PTX 7.8)");
}

TEST_CASE("env_check reads PTX as text, and tells code for the link from code for a card") {
  const Binary text = read("// made by hand\n.version 8.7\n.target sm_100a, debug\n.address_size 64\n");
  CHECK(text.error.empty());
  CHECK(text.kind == "ptx");
  CHECK(code_list(text.code) == "compute_100a (PTX 8.7)");
  CHECK_FALSE(read(".version 8.7\n.target sm_\n").error.empty());
  CHECK_FALSE(read(".target sm_80\n").error.empty());
  const Binary lto = read(fatbin(entry(8, 90, 0, 0, 0)));
  CHECK(code_list(lto.code) == "lto_90");
  CHECK(best_fit(lto.code, 90, Version()).fit == Fit::kNoCode);
}

TEST_CASE("env_check says what is wrong with a file that is no program") {
  CHECK(read_binary("/nonexistent").binary.error == "No such file or directory");
  CHECK(read_binary("/").binary.error == "it is not a regular file");
  CHECK(read_binary("/dev/null").binary.error == "it is not a regular file");
  CHECK_FALSE(read("").error.empty());
  CHECK(holds(read("#!/bin/sh\necho\n").error, "it is a script"));
  CHECK(read("MZ\x90\1").error == "it is a Windows program");
  CHECK(holds(read("PK\3\4").error, "wheel"));
  CHECK(read(fatbin(entry(2, 75, 0, 0, 0)).substr(0, 60)).error == "a fatbin is cut short");
  std::string small = kSample;
  small[EI_CLASS] = ELFCLASS32;
  CHECK(read(small).error == "it is a 32-bit file: CUDA programs are 64-bit");
  CHECK(elf_kind("/nonexistent").bits == 0);
  CHECK(read_binary("/proc/self/exe").binary.error.empty());  // this test: an ELF file without device code
}

TEST_CASE("env_check survives every truncation and 3000 damaged copies of a program") {
  size_t complaints = 0;
  for (size_t n = 0; n < kSample.size(); ++n) complaints += !read(kSample.substr(0, n)).error.empty();
  CHECK(complaints == kSample.size());  // the section table is at the end: any cut is noticed
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = kSample;
    for (int k = 0; k < 1 + round % 8; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    if (round % 3 == 0) {  // an extreme 64-bit field somewhere
      const uint64_t extreme = round % 2 ? ~0ull : 0x7fffffffffffffffull;
      std::memcpy(&damaged[random() % (damaged.size() - 8)], &extreme, 8);
    }
    const Binary b = read(damaged);
    CHECK(b.code.size() <= 1000);
  }
}

namespace {

// What cuobjdump prints: "Fatbin elf code:" or "Fatbin ptx code:", then "arch = sm_120f" and, of PTX, "code version = [9,0]".
std::vector<std::string> cuobjdump_list(const std::string& program, const std::string& file) {
  std::vector<std::string> names;
  const std::string text = output_of({program, file}, std::chrono::seconds(60));
  static const std::regex entry(R"(Fatbin (elf|ptx) code:[^]*?arch = sm_(\d+[af]?)\ncode version = \[(\d+),(\d+)\])");
  for (std::sregex_iterator it(text.begin(), text.end(), entry), end; it != end; ++it) {
    const std::smatch& m = *it;
    names.push_back(m[1] == "ptx" ? fmt::format("compute_{} (PTX {}.{})", m[2].str(), m[3].str(), m[4].str())
                                  : "sm_" + m[2].str());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("env_check reads what nvcc writes, as cuobjdump does") {
  GatherOptions options;
  options.ask_driver = options.python = false;
  const Facts f = gather(options);
  const Toolkit* toolkit = build_toolkit(f);
  if (!toolkit || Version(toolkit->version) < Version(12, 0)) {
    CHECK(true);  // no nvcc 12 or newer here: nothing to compare with
    return;
  }
  const bool family = Version(toolkit->version) >= Version(12, 9);
  TemporaryFolder folder;
  const std::string source = folder.write("k.cu", "__global__ void k(int* p) { *p = 42; }\n");
  const std::string object = (folder.path / "k.o").string();
  std::vector<std::string> command = {toolkit->nvcc, "-c", "-o", object, source};
  for (const char* arch : {"arch=compute_75,code=sm_75", "arch=compute_80,code=[sm_80,compute_80]",
                           "arch=compute_90a,code=[sm_90a,compute_90a]"})
    command.insert(command.end(), {"-gencode", arch});
  if (family) command.insert(command.end(), {"-gencode", "arch=compute_120f,code=[sm_120f,compute_120f]"});
  const auto made = Child::program(command, true).finish(std::chrono::seconds(120));
  INFO("nvcc says " << made.output);
  if (made.exit_code != 0) {  // a host compiler it does not take, for one: that is no fault of the reader
    CHECK_FALSE(made.output.empty());
    return;
  }
  const Binary b = read_binary(object).binary;
  INFO(code_list(b.code));
  CHECK(b.error.empty());
  CHECK(b.code.size() == (family ? 7 : 5));
  const auto fit = [&](int arch) { return best_fit(b.code, arch, Version()).fit; };
  CHECK(fit(75) == Fit::kRuns);
  CHECK(fit(86) == Fit::kRuns);
  CHECK(fit(90) == Fit::kRuns);
  CHECK(fit(100) == Fit::kJit);
  CHECK(fit(121) == (family ? Fit::kRuns : Fit::kJit));
  CHECK(fit(61) == Fit::kNoCode);
  for (const DeviceCode& code : b.code)
    if (code.kind == "ptx") CHECK(cuda_of_ptx({code.isa_major, code.isa_minor}) == Version(toolkit->version).release());

  std::string cuobjdump = toolkit->root + "/bin/cuobjdump";
  if (!is_program(cuobjdump)) cuobjdump = find_on_path("cuobjdump");
  if (cuobjdump.empty()) return;
  std::vector<std::string> names;
  for (const DeviceCode& code : b.code)
    for (int n = 0; n < code.count; ++n) names.push_back(code_name(code));
  std::sort(names.begin(), names.end());
  CHECK(names == cuobjdump_list(cuobjdump, object));
}
