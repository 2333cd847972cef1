#include "09_cuda_graph_decode/bpe.hpp"

#include <queue>

void Bpe::encode(std::string_view bytes, std::vector<int>& ids) const {
  struct Symbol {
    int id, previous, next;  // id -1: merged into the symbol before it
  };
  struct Candidate {
    int rank, left, merged;
    // std::priority_queue puts the largest on top; the best has the lowest rank, then the lowest position.
    bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
  };
  const int count = static_cast<int>(bytes.size());
  std::vector<Symbol> symbols(bytes.size());
  for (int i = 0; i < count; ++i) {
    symbols[i] = {byte_ids_[static_cast<unsigned char>(bytes[i])], i - 1, i + 1 < count ? i + 1 : -1};
  }

  std::priority_queue<Candidate> queue;
  const auto propose = [&](int left) {
    if (left < 0 || symbols[left].next < 0) return;
    const auto it = merges_.find(key(symbols[left].id, symbols[symbols[left].next].id));
    if (it != merges_.end()) queue.push({it->second.rank, left, it->second.merged});
  };
  for (int i = 0; i + 1 < count; ++i) propose(i);

  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    // A candidate is stale once either of its symbols has changed; then the pair that stands there now has been
    // proposed as well. Ranks name pairs, so an equal rank means the pair is still the same.
    Symbol& left = symbols[best.left];
    if (left.id < 0 || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    const auto it = merges_.find(key(left.id, right.id));
    if (it == merges_.end() || it->second.rank != best.rank) continue;
    left.id = best.merged;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = best.left;
    propose(left.previous);
    propose(best.left);
  }
  for (int i = 0; i >= 0 && i < count; i = symbols[i].next) ids.push_back(symbols[i].id);
}
