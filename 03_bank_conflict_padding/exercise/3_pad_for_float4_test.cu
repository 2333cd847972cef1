// Test of exercise 03.3, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void turn(Stream& stream, const float* a, float* out, int rows);

TEST_CASE("03.3: every element arrives") {
  for (const int rows : {128, 384}) {
    const auto in = random_uniform(size_t(rows) * 8, 1);
    DeviceBuffer<float> a(in), out(in.size());
    Stream stream;
    turn(stream, a.data(), out.data(), rows);
    stream.synchronize();
    std::vector<double> want(in.size());
    for (size_t i = 0; i < in.size(); ++i) want[i % 8 * rows + i / 8] = in[i];
    check_result(out, want, rows);
  }
}

#if !ON_GPU
TEST_CASE("03.3: neither store nor 16-byte read conflicts") {
  DeviceBuffer<float> a(random_uniform(256 * 8, 2)), out(256 * 8);
  const Seen seen = seen_by_lab([&](Stream& stream) { turn(stream, a.data(), out.data(), 256); });
  const auto load = seen.loads(simt::Space::shared), store = seen.stores(simt::Space::shared);
  CHECK(load.bytes == 16 * load.lanes);
  CHECK(load.wavefronts == load.least_wavefronts);
  CHECK(store.wavefronts == store.least_wavefronts);
}
#endif
