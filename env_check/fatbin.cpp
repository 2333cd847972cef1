#include "env_check/fatbin.hpp"

namespace env_check {
namespace {

constexpr size_t kMaxBlobs = 1 << 20;

struct FatbinHeader {
  uint32_t magic;
  uint16_t version, header_size;
  uint64_t size;
};
struct EntryHeader {  // the 48 bytes of an entry's header that are understood
  uint16_t kind, unused;
  uint32_t header_size;
  uint64_t size;
  uint32_t compressed_size, options;
  uint16_t minor, major;
  uint32_t arch;
  uint32_t name, name_length;
  uint64_t flags;
};
enum : uint16_t { kPtx = 1, kCubin = 2, kLto = 8 };
static_assert(sizeof(FatbinHeader) == 16 && sizeof(EntryHeader) == 48, "the layout on disk");

void fail(Binary& out, const char* why) {
  if (out.error.empty()) out.error = why;
}

void entries(const Window& w, Binary& out) {
  uint64_t at = 0;
  EntryHeader e{};
  while (w.read(at, e)) {
    if (e.header_size < sizeof e || e.header_size > 65536 || !w.holds(at + e.header_size, e.size))
      return fail(out, "a fatbin entry is cut short");
    const bool known = e.kind == kPtx || e.kind == kCubin || e.kind == kLto;
    if (known && e.arch > 0 && e.arch < 10000) {
      DeviceCode code;
      code.kind = e.kind == kPtx ? "ptx" : e.kind == kCubin ? "cubin" : "lto";
      code.arch = static_cast<int>(e.arch);
      if (e.flags & 0x100000) code.suffix = "a";
      if (e.flags & 0x200000) code.suffix = "f";
      if (e.kind == kPtx) code.isa_major = e.major, code.isa_minor = e.minor;
      add_code(code, out);
    }
    at += e.header_size + e.size;
    if (w.size() - at < sizeof e) return;  // padding
  }
}

}  // namespace

void add_code(DeviceCode code, Binary& out) {
  for (DeviceCode& have : out.code)
    if (have.kind == code.kind && have.arch == code.arch && have.suffix == code.suffix &&
        have.isa_major == code.isa_major && have.isa_minor == code.isa_minor) {
      ++have.count;
      return;
    }
  code.count = 1;
  if (out.code.size() < 1000) out.code.push_back(code);
}

void read_fatbins(const Window& w, Binary& out) {
  uint64_t at = 0;
  for (size_t blobs = 0; blobs < kMaxBlobs; ++blobs) {
    // Blobs start at multiples of 8; a linker may have left a gap.
    FatbinHeader header{};
    uint64_t gap = 0;
    bool found = false;
    for (; gap <= 4096 && w.read(at + gap, header); gap += 8)
      if ((found = header.magic == kFatbinMagic)) break;
    if (!found) {
      if (blobs == 0) fail(out, "its device code section holds no fatbin");
      return;
    }
    at += gap;
    if (header.header_size < sizeof header || !w.holds(at + header.header_size, header.size))
      return fail(out, "a fatbin is cut short");
    entries(w.part(at + header.header_size, header.size), out);
    at += header.header_size + header.size;
    at = (at + 7) / 8 * 8;
  }
}

}  // namespace env_check
