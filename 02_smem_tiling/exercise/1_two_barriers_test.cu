// Test of exercise 02.1, for stub, answer and wrong answers alike.
#include "common/lab/distances_test.hpp"

void distances(Stream& stream, const float* x, float* out, int n);

TEST_CASE("02.1: one tile") { check_distances(distances, 128); }
TEST_CASE("02.1: several tiles") { check_distances(distances, 512); }
TEST_CASE("02.1: a tile that is not full") {
  check_distances(distances, 1);
  check_distances(distances, 300);
}
