// cp.async: copies that are carried out as late as they may be, when they are waited for, or at once.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>

#include "common/simt/block_runner.hpp"

namespace simt {
namespace {

std::atomic<bool> early_copies{[] {
  const char* text = std::getenv("SIMT_COPIES");
  return text && std::strcmp(text, "early") == 0;
}()};

void carry_out(const AsyncCopy& copy) {
  if (copy.valid_bytes > 0) std::memcpy(copy.to, copy.from, copy.valid_bytes);
  std::memset(static_cast<char*>(copy.to) + copy.valid_bytes, 0, copy.bytes - copy.valid_bytes);
}

}  // namespace

void set_early_copies(bool early) { early_copies = early; }
bool copies_are_early() { return early_copies; }

void async_copy(void* to, const void* from, int bytes, int valid_bytes, Site site) {
  const Unheard unheard;
  BlockRunner& block = *active_block();
  const uintptr_t read = valid_bytes > 0 ? reinterpret_cast<uintptr_t>(from) : 0;
  if ((reinterpret_cast<uintptr_t>(to) | read) % static_cast<unsigned>(bytes) != 0)
    block.fail(fmt::format("cp.async: an address is not a multiple of {} bytes", bytes), site, block.current());
  AsyncCopy copy{to, from, bytes, valid_bytes, early_copies, site, __builtin_return_address(0)};
  if (block.observer()) block.observer()->copy_begins(copy);
  if (copy.done) carry_out(copy);
  block.current_copies().copies.push_back(copy);
}

void async_commit() {
  const Unheard unheard;
  ThreadCopies& thread = active_block()->current_copies();
  thread.group_ends.push_back(thread.copies.size());
}

void async_wait(int groups_left) {
  const Unheard unheard;
  BlockRunner& block = *active_block();
  ThreadCopies& thread = block.current_copies();
  const int groups = static_cast<int>(thread.group_ends.size()) - groups_left;
  if (groups <= 0) return;
  const size_t end = thread.group_ends[groups - 1];
  for (size_t i = 0; i < end; ++i) {
    if (!thread.copies[i].done) carry_out(thread.copies[i]);
    if (block.observer()) block.observer()->copy_ends(thread.copies[i]);
  }
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + end);
  thread.group_ends.erase(thread.group_ends.begin(), thread.group_ends.begin() + groups);
  for (size_t& group_end : thread.group_ends) group_end -= end;
}

}  // namespace simt
