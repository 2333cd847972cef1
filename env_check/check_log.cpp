// The kernel's log, where it may be read: Xid reports, and the driver's own word on why a card does not start. It adds to
// what the other checks found; without a log they must do.
#include <fmt/format.h>

#include <cstdlib>
#include <set>

#include "env_check/diagnosis.hpp"
#include "env_check/files.hpp"

namespace env_check {

std::string log_line(const Facts& f, const std::string& part) {
  std::string last;
  for (const std::string& line : f.kernel_log)
    if (contains(line, part)) last = line;
  return last;
}

// "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
void check_log(Diagnosis& d) {
  std::set<int> seen;
  bool hardware = false;
  Lines how;
  for (const std::string& line : d.f.kernel_log) {
    const size_t at = line.find("Xid (");
    const size_t number = at == std::string::npos ? at : line.find("): ", at);
    if (number == std::string::npos) continue;
    const int xid = std::atoi(line.c_str() + number + 3);
    if (!seen.insert(xid).second || how.size() >= 8) continue;
    const XidCode code = xid_code(xid);
    if (code.kind == "program") continue;  // a fault of some program, long gone
    hardware = hardware || code.kind == "hardware";
    how.push_back(fmt::format("{}{}", line, code.text.empty() ? "" : fmt::format("   (Xid {}: {})", xid, code.text)));
  }
  if (seen.count(79) && !d.works)
    d.error("gpu_off_bus", "The card has fallen off the bus: a hardware, power or heat problem, no version problem.",
            how, {"# switch the machine off and on; check power cables, seating, temperature"});
  if (!how.empty())
    d.add(d.works ? Severity::kWarning : Severity::kError, "xid",
          hardware ? "The kernel's log reports a hardware error of the card since boot."
                   : "The kernel's log reports an error of the driver or the card's firmware since boot.",
          how,
          {"sudo dmesg | grep -i xid", "nvidia-smi -q -d ECC,ROW_REMAPPER,PERFORMANCE",
           "# docs.nvidia.com/deploy/xid-errors says what to do for each number"});
  if (const std::string line = log_line(d.f, "RmInitAdapter failed"); !line.empty() && !d.works)
    d.error("adapter_init_failed",
            "The driver found the card and could not start it: no address space from the BIOS, missing firmware files, "
            "power or seating, or a card that this driver does not know.",
            {line},
            {"sudo dmesg | grep -iE 'nvrm|nvidia'   # the lines before it say which",
             "ls /lib/firmware/nvidia/$(cat /sys/module/nvidia/version)   # the card's firmware, gsp_*.bin",
             "# in the BIOS: Above 4G Decoding and Resizable BAR; then power cables and the slot"});
}

}  // namespace env_check
