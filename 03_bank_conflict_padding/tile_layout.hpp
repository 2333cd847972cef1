// Where element (row, column) of a tile lies in shared memory. Steps of one float; bank = place mod 32.
//
// Kernels and the printed predictions use the same functions, so that what is counted is what runs.
#pragma once
#include "common/device.hpp"

// Rows one behind the other: all elements of a column share a bank whenever COLUMNS is a multiple of 32.
template <int ROWS, int COLUMNS>
struct Plain {
  static constexpr int kSize = ROWS * COLUMNS;
  static __host__ __device__ constexpr int at(int row, int column) { return row * COLUMNS + column; }
};

// [layouts]
// PAD unused floats behind each row move the next row by PAD banks.
template <int ROWS, int COLUMNS, int PAD>
struct Padded {
  static constexpr int kSize = ROWS * (COLUMNS + PAD);
  static __host__ __device__ constexpr int at(int row, int column) { return row * (COLUMNS + PAD) + column; }
};

// No unused floats: each row is permuted by an exclusive or with (row · STEP) mod 32, which only changes the bank.
// STEP = 4 keeps groups of four neighbouring columns together, as float4 needs it.
template <int ROWS, int COLUMNS, int STEP>
struct Swizzled {
  static_assert(COLUMNS % 32 == 0, "the exclusive or stays inside a row only if a row is whole groups of 32 banks");
  static constexpr int kSize = ROWS * COLUMNS;
  static __host__ __device__ constexpr int at(int row, int column) {
    return row * COLUMNS + (column ^ (row * STEP & 31));
  }
};
// [/layouts]
