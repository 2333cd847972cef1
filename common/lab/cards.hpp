// Cards by their data sheets (cards.json), and the bound that a roofline puts on work that runs on one of them.
#pragma once
#include <string>
#include <vector>

struct Card {
  std::string name;  // "RTX 3060"
  int sm = 0;        // 86 for compute capability 8.6
  int multiprocessors = 0;
  double boost_hz = 0;
  double fp32_flops = 0;        // FLOP/s without tensor cores
  double bytes_per_second = 0;  // device memory
  std::string source;           // where the figures stand
};

constexpr const char* kDefaultCard = "RTX 3060";

// In the order of cards.json: by architecture.
const std::vector<Card>& cards();

// The card of that name; case, spaces, "NVIDIA" and "GeForce" in front do not matter. Throws BadInput that lists what
// there is.
const Card& find_card(const std::string& name);

// The table that --list-cards prints.
std::string cards_text();

// Seconds the work takes at least on `card`, and which of the two ceilings says so.
struct Bound {
  double seconds;
  bool memory;
};
inline Bound roofline(const Card& card, double flop, double bytes) {
  const double compute = flop / card.fp32_flops, memory = bytes / card.bytes_per_second;
  return {compute > memory ? compute : memory, memory >= compute};
}
