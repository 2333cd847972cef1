#include "env_check/elf_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "env_check/fatbin.hpp"
#include "env_check/files.hpp"
#include "env_check/tables.hpp"

namespace env_check {
namespace {

constexpr uint16_t kMachineCuda = 190;
constexpr uint64_t kMaxTable = 64 << 20;  // no honest section table or string table is larger

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_386:
      return "i386";
    case EM_AARCH64:
      return "aarch64";
    case EM_ARM:
      return "arm";
    case EM_PPC64:
      return "ppc64";
    case kMachineCuda:
      return "cuda";
    default:
      return fmt::format("ELF machine {}", machine);
  }
}

class Reader {
 public:
  Reader(ElfDetails& out, bool device_code) : out_(out), device_code_(device_code) {}

  void file(const Window& w) {
    uint32_t magic = 0;
    char ar[8] = {};
    if (w.read(0, ar, 8) && std::memcmp(ar, "!<arch>\n", 8) == 0) return archive(w);
    if (!w.read(0, magic)) return fail("it is shorter than any program");
    if (magic == kFatbinMagic) {
      out_.binary.kind = "fatbin";
      return read_fatbins(w, out_.binary);
    }
    if (std::memcmp(&magic, ELFMAG, SELFMAG) == 0) return elf(w);
    if (std::memcmp(&magic, "#!", 2) == 0) return fail("it is a script: give the program or library that it starts");
    if (std::memcmp(&magic, "MZ", 2) == 0) return fail("it is a Windows program");
    if (std::memcmp(&magic, "PK", 2) == 0) return fail("it is a zip archive or wheel: give the .so files in it");
    if (!ptx(w)) fail("it is neither an ELF file, an archive, a fatbin nor PTX");
  }

 private:
  void fail(const std::string& why) {
    if (out_.binary.error.empty()) out_.binary.error = why;
  }

  // PTX as text: a line ".version 9.0" and a line ".target sm_90a", after comments.
  bool ptx(const Window& w) {
    std::string text(std::min<uint64_t>(w.size(), 16384), '\0');
    if (!w.read(0, text.data(), text.size())) return false;
    text.insert(0, "\n");
    const std::string target = "\n.target sm_";
    const Version isa(version_after(text, "\n.version "));
    size_t at = text.find(target);
    if (at == std::string::npos || !isa.known()) return false;
    DeviceCode code;
    code.kind = "ptx", code.isa_major = isa.major(), code.isa_minor = isa.minor();
    for (at += target.size(); at < text.size() && text[at] >= '0' && text[at] <= '9' && code.arch < 10000; ++at)
      code.arch = code.arch * 10 + (text[at] - '0');
    if (at < text.size() && (text[at] == 'a' || text[at] == 'f')) code.suffix = text[at];
    if (code.arch <= 0 || code.arch >= 10000) return false;
    out_.binary.kind = "ptx";
    add_code(code, out_.binary);
    return true;
  }

  void archive(const Window& w) {
    out_.binary.kind = "archive";
    uint64_t at = 8;
    char header[60];
    for (size_t members = 0; members < 100000 && w.read(at, header, sizeof header); ++members) {
      if (header[58] != '`' || header[59] != '\n') return fail("its archive index is damaged");
      uint64_t size = 0;
      for (int i = 48; i < 58 && header[i] >= '0' && header[i] <= '9'; ++i)
        size = size * 10 + static_cast<uint64_t>(header[i] - '0');
      at += sizeof header;
      if (!w.holds(at, size)) return fail("an archive member is cut short");
      const Window member = w.part(at, size);
      uint32_t magic = 0;
      if (member.read(0, magic) && std::memcmp(&magic, ELFMAG, SELFMAG) == 0) elf(member);
      at += size + size % 2;
    }
  }

  void elf(const Window& w) {
    unsigned char ident[EI_NIDENT] = {};
    Elf64_Ehdr h{};
    uint16_t machine = 0;
    if (!w.read(0, ident, sizeof ident) || !w.read(18, machine)) return fail("its ELF header is cut short");
    out_.binary.elf_bits = ident[EI_CLASS] == ELFCLASS64 ? 64 : ident[EI_CLASS] == ELFCLASS32 ? 32 : 0;
    out_.binary.machine = machine_name(machine);
    if (ident[EI_DATA] != ELFDATA2LSB) return fail("it is a big-endian file");
    if (ident[EI_CLASS] != ELFCLASS64) return fail("it is a 32-bit file: CUDA programs are 64-bit");
    if (!w.read(0, h)) return fail("its ELF header is cut short");
    if (out_.binary.kind.empty())
      out_.binary.kind = h.e_machine == kMachineCuda ? "cubin" : h.e_type == ET_REL ? "object" : "program";
    if (h.e_machine == kMachineCuda) return cubin(w, h);
    if (h.e_shoff == 0) return fail("it has no section table (stripped too far)");
    if (h.e_shentsize != sizeof(Elf64_Shdr)) return fail("its section table has an unknown form");

    // With 65280 sections or more the number and the name table's index stand in section 0.
    Elf64_Shdr zero{};
    if (!w.read(h.e_shoff, zero)) return fail("its section table is cut short");
    const uint64_t count = h.e_shnum != 0 ? h.e_shnum : zero.sh_size;
    const uint64_t names = h.e_shstrndx != SHN_XINDEX ? h.e_shstrndx : zero.sh_link;
    if (count > kMaxTable / sizeof(Elf64_Shdr) || !w.holds(h.e_shoff, count * sizeof(Elf64_Shdr)))
      return fail("its section table is cut short");
    std::vector<Elf64_Shdr> sections(count);
    if (count == 0 || !w.read(h.e_shoff, sections.data(), count * sizeof(Elf64_Shdr)) || names >= count)
      return fail("its section table is damaged");
    const std::string strings = table(w, sections[names]);
    for (const Elf64_Shdr& s : sections) {
      const std::string name = text_at(strings, s.sh_name);
      if (device_code_ && (name == ".nv_fatbin" || name == "__nv_relfatbin") && s.sh_type != SHT_NOBITS &&
          s.sh_size > 0) {
        if (!w.holds(s.sh_offset, s.sh_size)) fail("its device code section is cut short");
        read_fatbins(w.part(s.sh_offset, s.sh_size), out_.binary);
      }
      if (s.sh_type == SHT_DYNAMIC && s.sh_link < count)
        dynamic(w.part(s.sh_offset, s.sh_size), table(w, sections[s.sh_link]));
    }
  }

  // Since CUDA 13 (ABI version 8) the architecture stands in bits 8 to 15 of the flags, before in the lowest byte.
  void cubin(const Window&, const Elf64_Ehdr& h) {
    DeviceCode code;
    code.kind = "cubin";
    code.arch = static_cast<int>(h.e_ident[EI_ABIVERSION] >= 8 ? (h.e_flags >> 8) & 0xff : h.e_flags & 0xff);
    if (code.arch == 0) return fail("its flags name no architecture");
    add_code(code, out_.binary);
  }

  std::string table(const Window& w, const Elf64_Shdr& s) const {
    if (s.sh_type == SHT_NOBITS || s.sh_size > kMaxTable || !w.holds(s.sh_offset, s.sh_size)) return "";
    std::string text(s.sh_size, '\0');
    if (!w.read(s.sh_offset, text.data(), text.size())) text.clear();
    return text;
  }

  static std::string text_at(const std::string& strings, uint64_t at) {
    if (at >= strings.size()) return "";
    const size_t end = std::min(strings.find('\0', at), strings.size());
    return strings.substr(at, std::min<size_t>(end - at, 4096));
  }

  void dynamic(const Window& w, const std::string& strings) {
    Elf64_Dyn d{};
    for (uint64_t at = 0; at < kMaxTable && w.read(at, d) && d.d_tag != DT_NULL; at += sizeof d) {
      const std::string text = text_at(strings, d.d_un.d_val);
      if (d.d_tag == DT_RPATH) out_.rpath = text;
      if (d.d_tag == DT_RUNPATH) out_.runpath = text;
      if (d.d_tag == DT_NEEDED && !text.empty() && out_.needed.size() < 1000) out_.needed.push_back(text);
    }
  }

  ElfDetails& out_;
  const bool device_code_;
};

// A regular file; a pipe or a device is not even opened, which could block or disturb it. -1 with errno otherwise.
int open_regular(const std::string& path, uint64_t& size) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return -1;
  if (!S_ISREG(st.st_mode)) {
    errno = EINVAL;
    return -1;
  }
  size = static_cast<uint64_t>(st.st_size);
  return open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

}  // namespace

ElfDetails read_binary(const std::string& path, bool device_code) {
  ElfDetails out;
  out.binary.path = path;
  uint64_t size = 0;
  const int fd = open_regular(path, size);
  if (fd < 0) {
    out.binary.error = errno == EINVAL ? "it is not a regular file" : std::strerror(errno);
    return out;
  }
  Reader(out, device_code).file(Window(fd, 0, size));
  close(fd);
  return out;
}

ElfKind elf_kind(const std::string& path) {
  uint64_t size = 0;
  const int fd = open_regular(path, size);
  if (fd < 0) return {};
  unsigned char ident[EI_NIDENT] = {};
  uint16_t machine = 0;
  const Window w(fd, 0, size);
  ElfKind kind;
  if (w.read(0, ident, sizeof ident) && std::memcmp(ident, ELFMAG, SELFMAG) == 0 && w.read(18, machine)) {
    kind.bits = ident[EI_CLASS] == ELFCLASS64 ? 64 : ident[EI_CLASS] == ELFCLASS32 ? 32 : 0;
    kind.machine = machine_name(machine);
  }
  close(fd);
  return kind;
}

}  // namespace env_check
