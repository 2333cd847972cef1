#include "common/simt/memory_check.hpp"

#include <algorithm>

namespace simt {
namespace {

BlockOrder& block_order() {
  static BlockOrder order;
  return order;
}

}  // namespace

void MemoryCheck::block_begins(uint32_t first_block_of_launch, uint32_t block, int threads) {
  first_block_ = first_block_of_launch;
  block_ = block;
  clock_.block_begins(threads);
  block_order().launch_begins(first_block_);
  fenced_.assign(static_cast<size_t>(threads), false);
}

void MemoryCheck::announce(int thread, uintptr_t word) {
  if (fenced_[static_cast<size_t>(thread)]) block_order().announce({block_, clock_.epoch(), thread}, word);
}

// Is what the cell's last writer did ordered before this access?
std::optional<Conflict> MemoryCheck::after_write(const Cell& cell, AccessKind kind, int thread) const {
  const int other = cell.write_thread;
  const bool same_block = cell.write_block == block_, same_warp = same_block && other / 32 == thread / 32;
  if (same_block && cell.write_async) return Conflict{Conflict::async_copy, block_, other, cell.write_pc, same_warp};
  if (kind == AccessKind::atomic && cell.write_atomic) return {};
  if (same_block) {
    if (other == thread || cell.write_epoch < clock_.epoch()) return {};
    if (same_warp && clock_.met_since(thread, other, cell.write_sync)) return {};
  } else if (block_order().ordered({cell.write_block, cell.write_epoch, other}, {block_, clock_.epoch(), thread})) {
    return {};
  }
  return Conflict{Conflict::written, cell.write_block, other, cell.write_pc, same_warp};
}

// The same for those who have read it, for an access that writes.
std::optional<Conflict> MemoryCheck::after_read(const Cell& cell, int thread) const {
  Conflict conflict{Conflict::read, cell.read_block, cell.read_thread, cell.read_pc, false};
  if (cell.read_block != block_) {
    if (block_order().ordered({cell.read_block, cell.read_epoch, conflict.thread}, {block_, clock_.epoch(), thread}))
      return {};
    return conflict;
  }
  if (cell.read_epoch < clock_.epoch()) return {};
  if (cell.read_by_warps || conflict.thread / 32 != thread / 32) return conflict;
  conflict.same_warp = true;
  for (int lane = 0; lane < 32; ++lane) {
    const int other = thread / 32 * 32 + lane;
    if (!(cell.read_lanes >> lane & 1) || other == thread || clock_.met_since(thread, other, cell.read_sync)) continue;
    conflict.thread = other;
    return conflict;
  }
  return {};
}

void MemoryCheck::note_read(Cell& cell, unsigned bytes, int thread, uint32_t pc) {
  const uint32_t lane = 1u << (thread % 32), sync = clock_.sync(thread / 32);
  // Readers of the same bytes between two barriers are kept together; of others, the last one is enough.
  const bool together = cell.read_block == block_ && cell.read_epoch == clock_.epoch() && cell.read_bytes == bytes;
  if (together && cell.read_thread / 32 == thread / 32) {
    cell.read_lanes = clock_.met_since(thread, cell.read_thread, cell.read_sync) ? lane : cell.read_lanes | lane;
  } else {
    cell.read_by_warps = together;
    cell.read_lanes = lane;
  }
  cell.read_block = block_;
  cell.read_epoch = clock_.epoch() & 0xffffffu;
  cell.read_sync = sync;
  cell.read_pc = pc;
  cell.read_bytes = bytes & 15u;
  cell.read_thread = static_cast<unsigned>(thread) & 1023u;
}

void MemoryCheck::note_write(Cell& cell, unsigned bytes, AccessKind kind, int thread, uint32_t pc) {
  cell.initialised = ((cell.write_block == block_ ? cell.initialised : 0u) | bytes) & 15u;
  cell.write_block = block_;
  cell.write_epoch = clock_.epoch() & 0xffffffu;
  cell.write_sync = clock_.sync(thread / 32);
  cell.write_pc = pc;
  cell.write_bytes = bytes & 15u;
  cell.write_atomic = kind == AccessKind::atomic;
  cell.write_async = kind == AccessKind::async_write;
  cell.write_thread = static_cast<uint16_t>(thread);
}

std::optional<Conflict> MemoryCheck::access(Cell* cells, uintptr_t offset, int bytes, AccessKind kind, int thread,
                                            uint32_t pc, bool shared) {
  const bool reads = kind == AccessKind::read || kind == AccessKind::atomic;
  // Launches follow one another, and so do, for shared memory, the blocks of a host thread.
  const auto concerns = [&](uint32_t block) { return shared ? block == block_ : block >= first_block_; };
  std::optional<Conflict> found;
  for (uintptr_t byte = offset, end = offset + static_cast<unsigned>(bytes); byte < end; byte = (byte | 3) + 1) {
    Cell& cell = cells[byte / 4];
    const unsigned count = static_cast<unsigned>(std::min<uintptr_t>(end - byte, 4 - byte % 4));
    const unsigned mask = ((1u << count) - 1u) << (byte % 4);
    if (concerns(cell.write_block) && (cell.write_bytes & mask))
      if (auto conflict = after_write(cell, kind, thread)) return conflict;
    if (reads && shared && (mask & ~(cell.write_block == block_ ? cell.initialised : 0u)))
      found = Conflict{Conflict::uninitialised};
    if (kind == AccessKind::read) {
      note_read(cell, mask, thread, pc);
      continue;
    }
    if (concerns(cell.read_block) && (cell.read_bytes & mask))
      if (auto conflict = after_read(cell, thread)) return conflict;
    note_write(cell, mask, kind, thread, pc);
  }
  return found;
}

void MemoryCheck::async_done(Cell* cells, uintptr_t offset, int bytes, int thread) {
  for (uintptr_t word = offset / 4; word * 4 < offset + static_cast<unsigned>(bytes); ++word) {
    Cell& cell = cells[word];
    if (cell.write_block != block_ || cell.write_thread != thread || !cell.write_async) continue;
    cell.write_async = 0;
    cell.write_epoch = clock_.epoch() & 0xffffffu;
    cell.write_sync = clock_.sync(thread / 32);
  }
}

}  // namespace simt
