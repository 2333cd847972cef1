#include "common/simt/tensor_map.hpp"

#include <algorithm>
#include <cstring>

namespace simt {
namespace {

constexpr int kChunk = 16;  // bytes that a swizzle leaves together

// visit(place in shared memory, global address, first, last) for each 16 bytes of the box: the bytes from `first` to
// before `last` of them lie inside the tensor, from the global address on.
template <class Visit>
void each_chunk(const TensorMap& map, const int (&at)[4], uint32_t start, Visit visit) {
  const auto element = static_cast<int64_t>(map.strides[0]), row_bytes = map.box[0] * element;
  const int64_t all = static_cast<int64_t>(map.dims[0]) * element;
  uint32_t linear = start;
  for (uint32_t i3 = 0; i3 < map.box[3]; ++i3)
    for (uint32_t i2 = 0; i2 < map.box[2]; ++i2)
      for (uint32_t i1 = 0; i1 < map.box[1]; ++i1) {
        const int64_t index[4] = {0, int64_t(at[1]) + i1, int64_t(at[2]) + i2, int64_t(at[3]) + i3};
        bool inside = true;
        int64_t offset = 0;
        for (int d = 1; d < 4; ++d) {
          inside = inside && index[d] >= 0 && static_cast<uint64_t>(index[d]) < map.dims[d];
          offset += index[d] * static_cast<int64_t>(map.strides[d]);
        }
        for (int64_t byte = at[0] * element, end = byte + row_bytes; byte < end; byte += kChunk, linear += kChunk) {
          const int64_t first = std::clamp<int64_t>(-byte, 0, kChunk),
                        last = std::clamp<int64_t>(all - byte, 0, kChunk);
          const bool any = inside && first < last;
          visit(map.swizzled ? swizzle_128(linear) : linear, any ? map.base + offset + byte + first : nullptr,
                any ? static_cast<int>(first) : 0, any ? static_cast<int>(last) : 0);
        }
      }
}

}  // namespace

void load_box(const TensorMap& map, const int (&at)[4], char* shared, uint32_t to) {
  each_chunk(map, at, to, [&](uint32_t place, const char* global, int first, int last) {
    std::memset(shared + place, 0, kChunk);
    if (global) std::memcpy(shared + place + first, global, static_cast<size_t>(last - first));
  });
}

void store_box(const TensorMap& map, const int (&at)[4], const char* shared, uint32_t from) {
  each_chunk(map, at, from, [&](uint32_t place, char* global, int first, int last) {
    if (global) std::memcpy(global, shared + place + first, static_cast<size_t>(last - first));
  });
}

}  // namespace simt
