// Seeded inputs that expose index bugs: never constant, with integers where a result can be exact and outliers where
// a missing maximum or a low-precision sum would show.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

// `count` floats, uniform in [-1, 1).
inline std::vector<float> random_uniform(size_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(static_cast<int64_t>(engine()) >> 40) * 0x1p-23f;
  return values;
}

// `count` floats that are small integers in [-limit, limit]: sums of their products are exact in float below 2^24.
inline std::vector<float> random_integers(size_t count, uint64_t seed, int limit = 3) {
  std::mt19937_64 engine(seed);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(static_cast<int>(engine() % (2 * limit + 1)) - limit);
  return values;
}

// `count` floats, normal with mean 0 and deviation 1; about one in 64 is ten times larger.
inline std::vector<float> random_normal_with_outliers(size_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(engine) * (engine() % 64 == 0 ? 10.f : 1.f);
  return values;
}
