// The angle position × frequency, and why it is the hard part of a positional encoding.
//
// Near position 40 959 a float has a spacing of 2^-8 = 0.004. An angle formed as one float is therefore wrong by up to
// 0.002, whatever sin does with it afterwards; and the frequency, rounded to float, adds as much again. The split form
// keeps the frequency as two floats, counts the angle in whole turns, and drops those before anything is rounded.
#pragma once
#include <cmath>

#include "common/launch.hpp"

constexpr double kTwoPi = 6.283185307179586476925286766559;

// Turns per position of a frequency in radians per position, as a float and what is left of it: 48 bits together.
struct SplitFrequency {
  float high, low;
};
__host__ __device__ inline SplitFrequency split_frequency(double radians) {
  const double turns = radians / kTwoPi;
  const float high = static_cast<float>(turns);
  return {high, static_cast<float>(turns - double(high))};
}

// [split_angle]
// The angle position × frequency in radians, reduced to [−π, π]; wrong by less than 2^-21 for positions below 2^24.
// Whole turns are dropped inside the multiply-add, before its one rounding. Written as turns − whole it would be right or
// wrong by what the compiler fuses.
__host__ __device__ inline float reduced_angle(float position, SplitFrequency frequency) {
  const float whole = rintf(position * frequency.high);
  const float part = fmaf(position, frequency.low, fmaf(position, frequency.high, -whole));
  return part * float(kTwoPi);
}
// [/split_angle]
