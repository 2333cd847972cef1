// The tables of data/*.json, compiled in: which driver a toolkit needs, what an nvcc compiles for, which gcc it takes,
// what a card is. Each file names its source.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace env_check {

// "12.4.127" as numbers. An unreadable text gives no parts, which `known()` tells.
struct Version {
  std::vector<int> parts;
  std::string written;  // as it was given: the zero of 580.95.05 counts for people
  Version() = default;
  Version(int major, int minor) : parts{major, minor} {}
  explicit Version(const std::string& text);
  bool known() const { return !parts.empty(); }
  int major() const { return parts.empty() ? 0 : parts[0]; }
  int minor() const { return parts.size() < 2 ? 0 : parts[1]; }
  Version release() const {  // 13.0 of 13.0.88
    return known() ? Version(major(), minor()) : Version();
  }
  std::string text() const;
};
bool operator<(const Version& a, const Version& b);
inline bool operator>(const Version& a, const Version& b) { return b < a; }
inline bool operator<=(const Version& a, const Version& b) { return !(b < a); }
inline bool operator>=(const Version& a, const Version& b) { return !(a < b); }
inline bool operator==(const Version& a, const Version& b) { return !(a < b) && !(b < a); }
inline bool operator!=(const Version& a, const Version& b) { return !(a == b); }

// cuDriverGetVersion's number: 12040 is 12.4.
inline Version cuda_version(int number) { return {number / 1000, number % 1000 / 10}; }

struct NvccArchs {
  Version nvcc;                    // the row: the newest one that is not newer than the question
  bool beyond_table = false;       // the nvcc is newer than every row, the row is its newest predecessor's
  std::string default_arch;        // without -arch
  std::vector<std::string> archs;  // 75 … 121f
  int lowest() const;
  int highest() const;
  bool has(int arch) const;
  int newest_below(int arch) const;  // without a suffix; 0 if there is none
};
std::optional<NvccArchs> archs_of_nvcc(const Version& nvcc);  // nothing for an nvcc older than the table

// First and last toolkit that compiles for sm_<arch>; an unknown Version where the table has none, or has no last one.
Version first_nvcc_for(int arch);
Version last_nvcc_for(int arch);

struct CompilerLimit {
  int gcc = 0, clang = 0;
};
std::optional<CompilerLimit> compiler_limit(const Version& nvcc);

// The driver that belongs to a toolkit and the oldest one that starts programs of its major version; "" if unknown.
std::string driver_for_toolkit(const Version& cuda, bool windows);
std::string oldest_driver_for_major(int major, bool windows);

// What a driver branch supports (580 → 13.0), by the newest toolkit whose driver is not newer. Unknown below the table.
Version cuda_of_driver(const Version& driver);

// The CUDA version whose driver first compiles this PTX ISA.
Version cuda_of_ptx(const Version& isa);

// Compute capability × 10 (86) by PCI device id; nothing if the id is in no range.
std::optional<int> arch_of_pci(int device_id);
int last_driver_for(int arch);        // branch of the last driver that runs this card: 470; 0 while none has dropped it
int last_driver_for(int arch);        // newest branch that runs this card: 470; 0 while none has dropped it
std::string cards_of_arch(int arch);  // "H100, H200 …"

struct ErrorCode {
  std::string name, text;
  std::string cause;                  // one line: what usually stands behind it
  std::vector<std::string> findings;  // ids of the findings that name it for certain
};
ErrorCode error_code(int code);  // unlisted: {"error 123", "", "", {}}
std::vector<int> listed_errors();

struct XidCode {
  std::string kind, text;  // kind: program, hardware or driver
};
XidCode xid_code(int xid);  // unlisted: {"", ""}

}  // namespace env_check
