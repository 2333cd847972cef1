// Test of exercise 06.2, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void causal_mean(Stream& stream, const float* v, float* out, int queries, int keys);

namespace {
constexpr int kDim = 32;

void check_shape(int queries, int keys) {
  const auto in = random_integers(size_t(keys) * kDim, 1);
  DeviceBuffer<float> v(in), out(size_t(queries) * kDim);
  Stream stream;
  causal_mean(stream, v.data(), out.data(), queries, keys);
  stream.synchronize();
  std::vector<double> want(out.size(), 0.0);
  for (int i = 0; i < queries; ++i)
    for (int d = 0; d < kDim; ++d) {
      const int last = keys - queries + i;  // the position of query i
      for (int j = 0; j <= last; ++j) want[i * kDim + d] += in[j * kDim + d];
      want[i * kDim + d] /= last + 1;
    }
  check_result(out, want, kDim, 1e-5);
}
}  // namespace

TEST_CASE("06.2: a prompt, nothing in the cache") { check_shape(20, 20); }
TEST_CASE("06.2: one more query behind a full cache") { check_shape(1, 33); }
TEST_CASE("06.2: a piece of a prompt") { check_shape(7, 19); }

#if !ON_GPU
TEST_CASE("06.2: keys that are not visible are not read") {
  DeviceBuffer<float> v(random_uniform(64 * kDim, 2)), out(64 * kDim);
  const Seen seen = seen_by_lab([&](Stream& stream) { causal_mean(stream, v.data(), out.data(), 64, 64); });
  const uint64_t visible = 64 * 65 / 2 * kDim;
  CHECK(seen.loads(simt::Space::global).lanes <= visible);
}
#endif
