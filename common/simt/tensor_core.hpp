// ldmatrix and mma.m16n8k16 for the executor: the fragment layouts of the PTX ISA, section "Warp-level matrix
// instructions", carried out by the last lane that arrives.
#pragma once
#include "common/simt/executor.hpp"

namespace simt {

constexpr unsigned kFullWarp = 0xffffffffu;

struct LdmatrixSlot {
  uint16_t row[8];  // lane 8i+r brings row r of matrix i: 16 bytes from a 16-byte boundary
  uint32_t result[4];
};

// Loads `count` 8×8 matrices of 2-byte values. Lane l gets row l/4, columns 2(l%4) and 2(l%4)+1 of each; with
// `transposed`, column l/4, rows 2(l%4) and 2(l%4)+1.
template <int count, bool transposed>
__forceinline__ void ldmatrix(uint32_t* result, const void* row, Site site) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) fail("ldmatrix: a row address is not a multiple of 16 bytes", site);
  LdmatrixSlot mine{};
  if (lane_id() < 8 * count) std::memcpy(mine.row, row, 16);
  warp_rendezvous(
      kFullWarp,
      [](void* const slots[32], unsigned) {
        for (int matrix = 0; matrix < count; ++matrix) {
          const auto value = [&](int r, int c) -> uint32_t {
            return static_cast<LdmatrixSlot*>(slots[8 * matrix + r])->row[c];
          };
          for (int lane = 0; lane < 32; ++lane) {
            const int major = lane / 4, minor = lane % 4 * 2;
            const uint32_t low = transposed ? value(minor, major) : value(major, minor);
            const uint32_t high = transposed ? value(minor + 1, major) : value(major, minor + 1);
            static_cast<LdmatrixSlot*>(slots[lane])->result[matrix] = low | high << 16;
          }
        }
      },
      &mine, site, false);
  for (int i = 0; i < count; ++i) result[i] = mine.result[i];
}

struct MmaSlot {
  float* c;           // 4 values: (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)   with g = lane/4, t = lane%4
  const uint32_t* a;  // 4 pairs: (g, 2t..), (g+8, 2t..), (g, 2t+8..), (g+8, 2t+8..)
  const uint32_t* b;  // 2 pairs: (2t.., g), (2t+8.., g)
};

// c[16, 8] += a[16, 16] · b[16, 8], a and b bfloat16, c float. Products are exact; sums are kept in float.
__forceinline__ void mma_m16n8k16_bf16(float* c, const uint32_t* a, const uint32_t* b, Site site) {
  MmaSlot mine{c, a, b};
  warp_rendezvous(
      kFullWarp,
      [](void* const slots[32], unsigned) {
        const auto low = [](uint32_t pair) { return bits_float(pair << 16); };
        const auto high = [](uint32_t pair) { return bits_float(pair & 0xffff0000u); };
        float A[16][16], B[16][8];
        for (int lane = 0; lane < 32; ++lane) {
          const auto& slot = *static_cast<MmaSlot*>(slots[lane]);
          const int g = lane / 4, t = lane % 4 * 2;
          for (int i = 0; i < 4; ++i) {
            const int row = g + i % 2 * 8, col = t + i / 2 * 8;
            A[row][col] = low(slot.a[i]);
            A[row][col + 1] = high(slot.a[i]);
          }
          for (int i = 0; i < 2; ++i) {
            B[t + 8 * i][g] = low(slot.b[i]);
            B[t + 8 * i + 1][g] = high(slot.b[i]);
          }
        }
        for (int row = 0; row < 16; ++row) {
          float sum[8] = {};
          for (int k = 0; k < 16; ++k)
            for (int col = 0; col < 8; ++col) sum[col] += A[row][k] * B[k][col];
          for (int col = 0; col < 8; ++col)
            static_cast<MmaSlot*>(slots[row % 8 * 4 + col / 2])->c[row / 8 * 2 + col % 2] += sum[col];
        }
      },
      &mine, site, false);
}

}  // namespace simt
