// Test of exercise 03.1, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void row_sums(Stream& stream, const float* x, float* sums, int rows);

TEST_CASE("03.1: the sums are right") {
  for (const int rows : {1, 32, 75}) {
    const auto in = random_integers(size_t(rows) * 32, 1);
    DeviceBuffer<float> x(in), sums(static_cast<size_t>(rows));
    Stream stream;
    row_sums(stream, x.data(), sums.data(), rows);
    stream.synchronize();
    std::vector<double> want(static_cast<size_t>(rows), 0.0);
    for (size_t i = 0; i < in.size(); ++i) want[i / 32] += in[i];
    check_result(sums, want, 1);
  }
}

#if !ON_GPU
TEST_CASE("03.1: no bank conflict") {
  DeviceBuffer<float> x(random_uniform(64 * 32, 2)), sums(64);
  const Seen seen = seen_by_lab([&](Stream& stream) { row_sums(stream, x.data(), sums.data(), 64); });
  const auto load = seen.loads(simt::Space::shared), store = seen.stores(simt::Space::shared);
  CHECK(load.lanes >= 64 * 32);  // the sums do come out of shared memory
  CHECK(load.wavefronts == load.least_wavefronts);
  CHECK(store.wavefronts == store.least_wavefronts);
}
#endif
