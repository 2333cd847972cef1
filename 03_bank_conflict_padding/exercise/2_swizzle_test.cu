// Test of exercise 03.2, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void transpose_tile(Stream& stream, const float* in, float* out, int rows, int cols);

TEST_CASE("03.2: every element arrives") {
  for (const auto& [rows, cols] : {std::pair{32, 32}, {1, 1}, {40, 70}, {33, 5}}) {
    const auto in = random_uniform(size_t(rows) * cols, 1);
    DeviceBuffer<float> x(in), y(in.size());
    Stream stream;
    transpose_tile(stream, x.data(), y.data(), rows, cols);
    stream.synchronize();
    std::vector<double> want(in.size());
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c) want[size_t(c) * rows + r] = in[size_t(r) * cols + c];
    check_result(y, want, rows);
  }
}

#if !ON_GPU
TEST_CASE("03.2: no bank conflict, and whole sectors") {
  DeviceBuffer<float> x(random_uniform(64 * 64, 2)), y(64 * 64);
  const Seen seen = seen_by_lab([&](Stream& stream) { transpose_tile(stream, x.data(), y.data(), 64, 64); });
  const auto load = seen.loads(simt::Space::shared), store = seen.stores(simt::Space::shared);
  CHECK(load.lanes == 64 * 64);
  CHECK(load.wavefronts == load.least_wavefronts);
  CHECK(store.wavefronts == store.least_wavefronts);
  const auto written = seen.stores(simt::Space::global);
  CHECK(written.sectors == 4 * written.requests);
}
#endif
