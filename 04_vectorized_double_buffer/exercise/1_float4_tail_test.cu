// Test of exercise 04.1, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void scale(Stream& stream, const float* x, float* y, float a, int n);

TEST_CASE("04.1: every length") {
  for (const int n : {1, 2, 3, 4, 5, 6, 7, 511, 512, 513, 1026}) {
    const auto in = random_integers(size_t(n), 1);
    DeviceBuffer<float> x(in), y(in.size());
    Stream stream;
    scale(stream, x.data(), y.data(), 3.f, n);
    stream.synchronize();
    std::vector<double> want(in.begin(), in.end());
    for (double& v : want) v *= 3;
    check_result(y, want, n);
  }
}

#if !ON_GPU
TEST_CASE("04.1: 16 bytes a lane") {
  DeviceBuffer<float> x(random_uniform(1024, 2)), y(1024);
  const Seen seen = seen_by_lab([&](Stream& stream) { scale(stream, x.data(), y.data(), 3.f, 1024); });
  CHECK(seen.loads(simt::Space::global).requests == 1024 / 128);
  CHECK(seen.stores(simt::Space::global).requests == 1024 / 128);
}
#endif
