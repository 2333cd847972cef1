// 09 · byte-pair encoding: the neighbours with the lowest rank merge first, the leftmost of equals before the others
//
// A linked list of symbols and a heap of possible merges: O(n log n) for a piece of n bytes. The textbook loop that
// looks for the best pair after every merge is O(n²), and a page of Chinese or base64 has no space to end a piece at.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

class Bpe {
 public:
  // byte_ids[b]: the id of the token that is the single byte b.
  explicit Bpe(const std::array<int, 256>& byte_ids) : byte_ids_(byte_ids) {}

  void reserve(std::size_t merges) { merges_.reserve(merges); }

  // left and right, side by side, become `merged`; lower ranks go first. A pair given twice has its last rank.
  void add_merge(int left, int right, int rank, int merged) { merges_[key(left, right)] = {rank, merged}; }

  // Appends the ids of one piece of text.
  void encode(std::string_view bytes, std::vector<int>& ids) const;

 private:
  struct Merge {
    int rank, merged;
  };
  static std::uint64_t key(int left, int right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }

  std::array<int, 256> byte_ids_;
  std::unordered_map<std::uint64_t, Merge> merges_;
};
