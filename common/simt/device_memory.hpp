// The device memory of an instrumented build: which addresses a kernel may touch, and what it did with each word.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simt {

// What is known of four bytes of shared or global memory: who wrote them last, and who has read them since.
// A block is its number in the process (0: nobody), an epoch the barriers of the block so far, a sync the meetings of
// the warp so far.
struct Cell {
  uint32_t write_block, write_sync, write_pc;
  uint32_t read_block, read_sync, read_pc, read_lanes;
  uint32_t write_epoch : 24, write_bytes : 4, write_atomic : 1, write_async : 1;
  uint32_t read_epoch : 24, read_bytes : 4, initialised : 4;  // the latter: bytes, where write_block is this block
  uint16_t write_thread;
  uint16_t read_thread : 10, read_by_warps : 1;  // by several warps in this epoch
};

struct DeviceRange {
  uintptr_t begin, end;
  Cell* cells;
};

// Called by device_allocate and device_free where counting() is true.
void add_device_memory(const void* begin, size_t bytes);
void remove_device_memory(const void* begin);

// All ranges by address. `version` grows with every change, so that a copy can be kept.
uint64_t device_memory_version();
std::vector<DeviceRange> device_memory();

}  // namespace simt
