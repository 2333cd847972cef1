// Test of exercise 06.3, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void combine(Stream& stream, const float* m, const float* l, const float* o, float* out, int splits);

namespace {
constexpr int kDim = 32;

// Splits of `per_split` keys; of the last split only the first `in_last` exist.
void check_splits(int splits, int per_split, int in_last, float offset) {
  const int keys = (splits - 1) * per_split + in_last;
  const auto score = random_uniform(size_t(keys), 1), value = random_uniform(size_t(keys) * kDim, 2);
  std::vector<float> m(splits, -INFINITY), l(splits, 0.f), o(splits * kDim, 0.f);
  std::vector<double> want(kDim, 0.0);
  double total = 0;
  const auto at = [&](int j) { return 8 * score[j] + offset; };
  for (int j = 0; j < keys; ++j) m[j / per_split] = std::max(m[j / per_split], at(j));
  for (int j = 0; j < keys; ++j) {
    const int s = j / per_split;
    const float weight = std::exp(at(j) - m[s]);
    l[s] += weight;
    total += std::exp(8 * double(score[j]));  // the offset makes no difference
    for (int d = 0; d < kDim; ++d) {
      o[s * kDim + d] += weight * value[j * kDim + d];
      want[d] += std::exp(8 * double(score[j])) * value[j * kDim + d];
    }
  }
  for (double& v : want) v = keys == 0 ? 0 : v / total;
  DeviceBuffer<float> dm(m), dl(l), dout(kDim), d_o(o);
  Stream stream;
  combine(stream, dm.data(), dl.data(), d_o.data(), dout.data(), splits);
  stream.synchronize();
  check_result(dout, want, kDim, 2e-4);
}
}  // namespace

TEST_CASE("06.3: one split") { check_splits(1, 10, 10, 0.f); }
TEST_CASE("06.3: splits with different maxima") { check_splits(5, 10, 7, 0.f); }
TEST_CASE("06.3: scores whose exp is more than a float holds") { check_splits(5, 10, 10, 200.f); }
TEST_CASE("06.3: a split without a key") { check_splits(4, 10, 0, 0.f); }
TEST_CASE("06.3: no key at all") { check_splits(1, 10, 0, 0.f); }
