// Test of exercise 04.3, for stub, answer and wrong answers alike.
#include "common/lab/distances_test.hpp"
#include "common/lab/exercise.hpp"

void distances(Stream& stream, const float* x, float* out, int n);

TEST_CASE("04.3: one tile") { check_distances(distances, 128); }
TEST_CASE("04.3: several tiles") { check_distances(distances, 512); }
TEST_CASE("04.3: a tile that is not full") {
  check_distances(distances, 1);
  check_distances(distances, 300);
}

#if !ON_GPU
TEST_CASE("04.3: a copy may also happen at once") {
  simt::set_early_copies(true);
  check_distances(distances, 512);
  simt::set_early_copies(false);
}
#endif
