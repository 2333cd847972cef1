// Which device code runs on which card: the rules that cost everybody an afternoon, as functions.
#pragma once
#include <string>
#include <vector>

#include "env_check/facts.hpp"
#include "env_check/tables.hpp"

namespace env_check {

enum class Fit {
  kRuns,       // machine code for this card
  kJit,        // PTX that the driver compiles at start
  kPtxTooNew,  // PTX of a suitable architecture, but newer than the driver (error 222)
  kNoCode,     // nothing for this card (error 209)
};

struct CodeFit {
  Fit fit = Fit::kNoCode;
  DeviceCode code;             // the entry that decided (for kNoCode: none)
  bool only_specific = false;  // kNoCode: the file has code for a card that is near, but locked to that card ("a", "f")
};

// May this entry be used on a card sm_<arch> at all, PTX's age aside?
//   cubin sm_XY    same X, Y not above the card's: 80 runs on 86 and 89, never the other way, never another X.
//   ptx compute_XY any card that is not older.
//   "a"            exactly that card, cubin and PTX alike.
//   "f"            the same family (same X, Y not below).
bool fits(const DeviceCode& code, int arch);

// The best that `code` offers a card with a driver of CUDA version `driver` (unknown: PTX counts as new enough).
CodeFit best_fit(const std::vector<DeviceCode>& code, int arch, const Version& driver);

std::string code_name(const DeviceCode& code);               // "sm_90a", "compute_80 (PTX 9.0)"
std::string code_list(const std::vector<DeviceCode>& code);  // joined by ", "

// A card as this machine shows it: from CUDA, else guessed from its PCI id.
struct Card {
  std::string name;
  int arch = 0;          // 86
  bool guessed = false;  // from the PCI id
};
std::vector<Card> cards_of(const Facts& facts);

// The nvcc that the tutorial's build takes: the first of the facts, which are in the order of
// cmake/cuda_architectures.cmake. nullptr without any.
const Toolkit* build_toolkit(const Facts& facts);

// What an nvcc compiles for: its own list where it gives one, else the table's.
std::optional<NvccArchs> archs_of(const Toolkit& toolkit);

// What to give as -DCMAKE_CUDA_ARCHITECTURES= for the visible cards with this nvcc; "" if nothing fits. 9.0 becomes 90a
// (wgmma and TMA need it) where the nvcc knows that; a card newer than the nvcc gets the newest PTX the nvcc makes.
std::string cuda_architectures(const Facts& facts);

Version driver_cuda(const Facts& facts);         // CUDA version of the driver, from libcuda or else NVML
std::string driver_version(const Facts& facts);  // 580.159.04, from the module or else NVML

}  // namespace env_check
