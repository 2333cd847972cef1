// Test of exercise 01.1, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void scale_rows(Stream& stream, const float* x, const float* s, float* y, int rows, int cols);

TEST_CASE("01.1: every row gets its factor, whatever the shape") {
  for (const auto& [rows, cols] : {std::pair{1, 1}, {7, 33}, {70, 40}, {3, 300}, {300, 3}}) {
    const auto in = random_integers(size_t(rows) * cols, 1), factors = random_integers(size_t(rows), 2);
    DeviceBuffer<float> x(in), s(factors), y(in.size());
    Stream stream;
    scale_rows(stream, x.data(), s.data(), y.data(), rows, cols);
    stream.synchronize();
    std::vector<double> want(in.size());
    for (size_t i = 0; i < in.size(); ++i) want[i] = factors[i / cols] * in[i];
    check_result(y, want, cols);
  }
}

#if !ON_GPU
TEST_CASE("01.1: a warp touches 4 sectors") {
  DeviceBuffer<float> x(random_uniform(64 * 96, 3)), s(random_uniform(64, 4)), y(64 * 96);
  const Seen seen = seen_by_lab([&](Stream& stream) { scale_rows(stream, x.data(), s.data(), y.data(), 64, 96); });
  const auto load = seen.loads(simt::Space::global), store = seen.stores(simt::Space::global);
  CHECK(store.lanes == 32 * store.requests);
  CHECK(store.sectors <= 4 * store.requests);
  CHECK(load.sectors <= 4 * load.requests);
}
#endif
