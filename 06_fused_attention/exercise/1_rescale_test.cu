// Test of exercise 06.1, for stub, answer and wrong answers alike.
#include "common/lab/exercise.hpp"

void attend(Stream& stream, const float* q, const float* k, const float* v, float* out, int queries, int keys);

namespace {
constexpr int kDim = 32, kQueries = 3;

// `growth` is added to the scores from key to key.
void check_attention(int keys, float growth) {
  auto q = random_uniform(kQueries * kDim, 1), k = random_uniform(size_t(keys) * kDim, 2);
  const auto v = random_uniform(size_t(keys) * kDim, 3);
  for (int i = 0; i < kQueries; ++i) q[i * kDim] = 1.f;
  for (int j = 0; j < keys; ++j) k[j * kDim] = growth * float(j);
  DeviceBuffer<float> dq(q), dk(k), dv(v), out(q.size());
  Stream stream;
  attend(stream, dq.data(), dk.data(), dv.data(), out.data(), kQueries, keys);
  stream.synchronize();
  std::vector<double> want(q.size(), 0.0);
  for (int i = 0; i < kQueries; ++i) {
    double sum = 0;
    for (int j = 0; j < keys; ++j) {
      double score = 0;
      for (int d = 0; d < kDim; ++d) score += double(q[i * kDim + d]) * k[j * kDim + d];
      const double weight = std::exp(score);
      sum += weight;
      for (int d = 0; d < kDim; ++d) want[i * kDim + d] += weight * v[j * kDim + d];
    }
    for (int d = 0; d < kDim; ++d) want[i * kDim + d] /= sum;
  }
  check_result(out, want, kDim, 1e-4);
}
}  // namespace

TEST_CASE("06.1: one key gets all the weight") { check_attention(1, 0.f); }
TEST_CASE("06.1: scores in any order") { check_attention(100, 0.f); }
TEST_CASE("06.1: the largest score comes first") { check_attention(60, -0.5f); }
TEST_CASE("06.1: every score is larger than the one before") { check_attention(60, 3.f); }
