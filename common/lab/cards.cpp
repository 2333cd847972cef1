#include "common/lab/cards.hpp"

#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>

#include "common/error.hpp"
#include "lab_cards.inc"  // made by CMake from cards.json: kCardsJson, so that the programs work from any folder

namespace {

// "NVIDIA GeForce RTX 3060" → "rtx3060"
std::string plain(const std::string& name) {
  std::string text;
  for (const char c : name)
    if (!std::isspace(static_cast<unsigned char>(c))) text += static_cast<char>(std::tolower(c));
  for (const std::string maker : {"nvidia", "geforce"})
    if (text.rfind(maker, 0) == 0) text.erase(0, maker.size());
  return text;
}

}  // namespace

const std::vector<Card>& cards() {
  static const std::vector<Card> all = [] {
    std::vector<Card> list;
    const nlohmann::json table = nlohmann::json::parse(kCardsJson);
    for (const auto& row : table.at("cards"))
      list.push_back({row.at("name"), row.at("sm"), row.at("multiprocessors"), row.at("boost_mhz").get<double>() * 1e6,
                      row.at("fp32_tflops").get<double>() * 1e12, row.at("memory_gbps").get<double>() * 1e9,
                      row.at("source")});
    return list;
  }();
  return all;
}

const Card& find_card(const std::string& name) {
  std::string names;
  for (const Card& card : cards()) {
    if (plain(card.name) == plain(name)) return card;
    names += (names.empty() ? "" : ", ") + card.name;
  }
  throw BadInput(fmt::format("--card {}: not known; there are {}", name, names));
}

std::string cards_text() {
  std::string text = fmt::format(" {:<14}{:>6}{:>6}{:>15}{:>8}  source\n", "card", "sm", "SMs", "fp32 TFLOP/s", "GB/s");
  for (const Card& c : cards())
    text += fmt::format(" {:<14}{:>6}{:>6}{:>15.1f}{:>8.0f}  {}\n", c.name, c.sm, c.multiprocessors,
                        c.fp32_flops * 1e-12, c.bytes_per_second * 1e-9, c.source);
  return text;
}
