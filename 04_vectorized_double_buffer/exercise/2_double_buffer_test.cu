// Test of exercise 04.2, for stub, answer and wrong answers alike.
#include "common/lab/distances_test.hpp"
#include "common/lab/exercise.hpp"

void distances(Stream& stream, const float* x, float* out, int n);

TEST_CASE("04.2: any number of tiles") {
  for (const int n : {1, 128, 300, 512}) check_distances(distances, n);
}

#if !ON_GPU
TEST_CASE("04.2: one barrier a tile") {
  DeviceBuffer<float> x(random_uniform(8 * 128, 2)), out(8 * 128);
  const Seen seen = seen_by_lab([&](Stream& stream) { distances(stream, x.data(), out.data(), 8 * 128); });
  CHECK(seen.stores(simt::Space::shared).lanes >= 8 * 8 * 128);  // every block copies 8 tiles
  CHECK(seen.barriers_per_block() <= 8 + 1);
}
#endif
