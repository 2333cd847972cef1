// Test of exercise 01.3, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void add_bias(Stream& stream, const float* x, const float* bias, float* y, int rows, int cols);

TEST_CASE("01.3: every element gets its column's bias") {
  for (const auto& [rows, cols] : {std::pair{1, 1}, {5, 3}, {70, 8}, {9, 12}, {300, 1}, {2, 1000}}) {
    const auto in = random_integers(size_t(rows) * cols, 1), b = random_integers(size_t(cols), 2);
    DeviceBuffer<float> x(in), bias(b), y(in.size());
    Stream stream;
    add_bias(stream, x.data(), bias.data(), y.data(), rows, cols);
    stream.synchronize();
    std::vector<double> want(in.size());
    for (size_t i = 0; i < in.size(); ++i) want[i] = in[i] + b[i % cols];
    check_result(y, want, cols);
  }
}

#if !ON_GPU
TEST_CASE("01.3: whole warps work, on neighbours") {
  for (const int cols : {1, 8, 32, 64}) {
    const int rows = 2048 / cols;
    DeviceBuffer<float> x(random_uniform(2048, 3)), bias(random_uniform(size_t(cols), 4)), y(2048);
    const Seen seen =
        seen_by_lab([&](Stream& stream) { add_bias(stream, x.data(), bias.data(), y.data(), rows, cols); });
    const auto load = seen.loads(simt::Space::global);
    INFO(cols << " columns");
    CHECK(double(load.lanes) / double(load.requests) == 32);
    CHECK(load.sectors <= 4 * load.requests);
  }
}
#endif
