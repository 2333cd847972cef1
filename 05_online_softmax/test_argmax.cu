// The device's greedy choice.
#include <algorithm>

#include "05_online_softmax/argmax.cuh"
#include "05_online_softmax/sampling.hpp"
#include "common/catch.hpp"
#include "common/random.hpp"
#include "common/thin_tests.hpp"

namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

struct Argmax {
  Stream stream;
  ArgmaxScratch scratch;
  DeviceBuffer<int> index{1};
  // `offset`: how many floats behind a 16-byte boundary the logits start
  int operator()(const std::vector<float>& logits, int offset = 0, bool pdl = false) {
    std::vector<float> padded(size_t(offset), kInf);  // a read before the start would win
    padded.insert(padded.end(), logits.begin(), logits.end());
    DeviceBuffer<float> values(padded);
    index.poison();
    argmax(stream, values.data() + offset, int(logits.size()), index.data(), scratch, pdl);
    stream.synchronize();
    return index.to_host()[0];
  }
};

}  // namespace

TEST_CASE("05 argmax: every length and place, aligned or not") {
  Argmax argmax;
  for (int n : thinned<int>({1, 2, 3, 4, 5, 31, 255, 256, 257, 1023, 1024, 1025, 4099, 131072, 151936, 151937})) {
    std::vector<float> logits = random_uniform(size_t(n), uint64_t(n));
    for (int place : {0, n / 3, n / 2, n - 1})
      for (int offset : {0, 1}) {
        std::vector<float> x = logits;
        x[size_t(place)] = 2.f;
        INFO(n << " logits, largest at " << place << ", offset " << offset);
        REQUIRE(argmax(x, offset) == place);
      }
    INFO(n << " logits");
    CHECK(argmax(logits) == int(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
}
TEST_CASE("05 argmax: of equal logits the smallest index, whichever block sees it") {
  Argmax argmax;
  CHECK(argmax(std::vector<float>(151936, 1.f)) == 0);
  CHECK(argmax({-0.f, 0.f}) == 0);
  CHECK(argmax({1.f, 3.f, 3.f, 2.f, 3.f}) == 1);
  const std::pair<int, int> places[] = {{5, 6}, {7, 4096}, {100000, 100031}, {3, 151935}, {1027, 2051}};
  for (auto [first, second] : places) {
    std::vector<float> x = random_uniform(151936, 5);
    x[size_t(first)] = x[size_t(second)] = 4.f;
    CHECK(argmax(x) == first);
  }
  // few different values, as bfloat16 logits have them: ties are the rule
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const std::vector<float> x = random_integers(50021, seed, 2);
    CHECK(argmax(x) == int(std::max_element(x.begin(), x.end()) - x.begin()));
  }
}
TEST_CASE("05 argmax: NaN is ignored, infinities are numbers") {
  Argmax argmax;
  CHECK(argmax({kNan, 1.f, kNan, 2.f, kNan}) == 3);
  CHECK(argmax(std::vector<float>(1000, kNan)) == 0);
  CHECK(argmax({kNan}) == 0);
  CHECK(argmax({kNan, -kInf, -kInf}) == 1);
  CHECK(argmax(std::vector<float>(3000, -kInf)) == 0);
  CHECK(argmax({1.f, kInf, 3e38f, kInf}) == 1);
  std::vector<float> x(5000, kNan);
  x[4999] = -5.f;
  CHECK(argmax(x) == 4999);
}
TEST_CASE("05 argmax: a captured launch can be replayed, and the logits may change between") {
  std::vector<float> x = random_uniform(30000, 3);
  DeviceBuffer<float> logits(x);
  DeviceBuffer<int> index(1);
  ArgmaxScratch scratch;
  Stream stream;
  const Graph graph =
      Graph::capture(stream, [&] { argmax(stream, logits.data(), 30000, index.data(), scratch, true); });
  for (int place : {29999, 17, 20000, 17}) {
    std::vector<float> now = x;
    now[size_t(place)] = 3.f;
    logits.upload(now);
    graph.replay(stream);
    stream.synchronize();
    CHECK(index.to_host()[0] == place);
  }
}
TEST_CASE("05 argmax: device and host choose alike") {
  Argmax argmax;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    std::vector<float> x = random_integers(9001, seed, 5);
    for (size_t i = seed; i < x.size(); i += 17) x[i] = kNan;
    CHECK(argmax(x, 0, true) == greedy(x.data(), int(x.size())));
  }
}
