// The executor's tensor map, and how the copy engine moves a box of it.
#pragma once
#include <cstdint>

namespace simt {

struct TensorMap {
  char* base;
  int rank;
  uint64_t dims[4], strides[4];  // elements; bytes, strides[0] that of one element
  uint32_t box[4];               // elements
  bool swizzled;                 // rows of 128 bytes, 16-byte chunk c of one at place c ^ (row mod 8)

  uint32_t box_bytes() const { return box[0] * box[1] * box[2] * box[3] * static_cast<uint32_t>(strides[0]); }
};

// Where a byte that would lie at `address` of shared memory lies where 128-byte rows are swizzled: bits 4 to 6 of the
// address are exclusive-ored with bits 7 to 9.
constexpr uint32_t swizzle_128(uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

// The box of `map` at the coordinates `at`, between global memory and byte `to` of `shared`. Loads fill what lies outside
// of the tensor with zeros; stores leave it out.
void load_box(const TensorMap& map, const int (&at)[4], char* shared, uint32_t to);
void store_box(const TensorMap& map, const int (&at)[4], const char* shared, uint32_t from);

}  // namespace simt
