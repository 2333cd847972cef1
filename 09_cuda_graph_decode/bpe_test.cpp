// Byte-pair encoding against the textbook loop, and in a time that a long piece shows.
#include <map>
#include <random>
#include <string>
#include <utility>

#include "09_cuda_graph_decode/bpe.hpp"
#include "common/catch.hpp"

namespace {

std::array<int, 256> identity_bytes() {
  std::array<int, 256> ids;
  for (int byte = 0; byte < 256; ++byte) ids[static_cast<size_t>(byte)] = byte;
  return ids;
}

using Merges = std::map<std::pair<int, int>, std::pair<int, int>>;  // pair → {rank, merged}

// Look at all neighbours, merge the one of lowest rank (the leftmost of equals), start again.
std::vector<int> textbook(const std::string& bytes, const Merges& merges) {
  std::vector<int> ids;
  for (const char c : bytes) ids.push_back(static_cast<unsigned char>(c));
  while (true) {
    size_t best = ids.size();
    int best_rank = 0, merged = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto it = merges.find({ids[i], ids[i + 1]});
      if (it != merges.end() && (best == ids.size() || it->second.first < best_rank)) {
        best = i;
        best_rank = it->second.first;
        merged = it->second.second;
      }
    }
    if (best == ids.size()) return ids;
    ids[best] = merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace

TEST_CASE("bpe: nothing, one byte, no merge") {
  const Bpe bpe(identity_bytes());
  std::vector<int> ids;
  bpe.encode("", ids);
  CHECK(ids.empty());
  bpe.encode("\xFF", ids);
  CHECK(ids == std::vector<int>{255});
  bpe.encode("ab", ids);
  CHECK(ids == std::vector<int>{255, 'a', 'b'});  // appends
}

TEST_CASE("bpe: the lowest rank goes first, the leftmost of equals before the others") {
  Bpe bpe(identity_bytes());
  bpe.add_merge('b', 'c', 0, 300);
  bpe.add_merge('a', 'b', 1, 301);
  bpe.add_merge('a', 'a', 2, 302);
  std::vector<int> ids;
  bpe.encode("abc", ids);
  CHECK(ids == std::vector<int>{'a', 300});
  ids.clear();
  bpe.encode("aaa", ids);
  CHECK(ids == std::vector<int>{302, 'a'});
}

TEST_CASE("bpe: a pair given twice has its last rank, as in Hugging Face's reader") {
  Bpe bpe(identity_bytes());
  bpe.add_merge('a', 'b', 0, 300);
  bpe.add_merge('b', 'c', 1, 301);
  bpe.add_merge('a', 'b', 2, 300);
  std::vector<int> ids;
  bpe.encode("abc", ids);
  CHECK(ids == std::vector<int>{'a', 301});
}

TEST_CASE("bpe: random merges and random texts give what the textbook loop gives") {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int compared = 0, merged_somewhere = 0;
  for (int table = 0; table < 40; ++table) {
    Bpe bpe(identity_bytes());
    Merges merges;
    std::vector<int> symbols = {'a', 'b', 'c'};
    for (int rank = 0; rank < 30; ++rank) {
      const std::pair<int, int> pair = {symbols[static_cast<size_t>(below(static_cast<int>(symbols.size())))],
                                        symbols[static_cast<size_t>(below(static_cast<int>(symbols.size())))]};
      if (!merges.emplace(pair, std::make_pair(rank, 300 + rank)).second) continue;
      bpe.add_merge(pair.first, pair.second, rank, 300 + rank);
      symbols.push_back(300 + rank);
    }
    for (int text = 0; text < 50; ++text) {
      std::string bytes;
      for (int i = below(60); i >= 0; --i) bytes += static_cast<char>('a' + below(3));
      std::vector<int> ids;
      bpe.encode(bytes, ids);
      INFO(bytes);
      REQUIRE(ids == textbook(bytes, merges));
      ++compared;
      merged_somewhere += ids.size() < bytes.size();
    }
  }
  CHECK(compared == 2000);
  CHECK(merged_somewhere > 1000);
}

TEST_CASE("bpe: a piece of a megabyte ends") {
  // At O(n²) this would take hours.
  Bpe bpe(identity_bytes());
  bpe.add_merge('a', 'b', 0, 300);
  bpe.add_merge(300, 300, 1, 301);
  std::string bytes;
  for (int i = 0; i < 500'000; ++i) bytes += "ab";
  std::vector<int> ids;
  bpe.encode(bytes, ids);
  CHECK(ids == std::vector<int>(250'000, 301));
}
