// Temperature, top-k and top-p on the host.
#include <map>

#include "05_online_softmax/sampling.hpp"
#include "common/catch.hpp"

namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

SamplingOptions options(double temperature, int top_k = 0, double top_p = 1) {
  SamplingOptions o;
  o.temperature = temperature;
  o.top_k = top_k;
  o.top_p = top_p;
  return o;
}

std::vector<int> kept(const std::vector<float>& logits, const SamplingOptions& o) {
  std::vector<int> tokens;
  for (const Candidate& c : sampling_candidates(logits.data(), int(logits.size()), o)) tokens.push_back(c.token);
  return tokens;
}

// How often each token comes in `draws` draws.
std::map<int, int> histogram(const std::vector<float>& logits, const SamplingOptions& o, int draws, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::map<int, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[sample(logits.data(), int(logits.size()), o, engine)];
  return counts;
}

const std::vector<float> kEighths{std::log(1.f), std::log(4.f), std::log(2.f), std::log(1.f)};  // 1/8 1/2 1/4 1/8

}  // namespace

TEST_CASE("05 sampling: top-k keeps the k largest, equal ones by index") {
  CHECK(kept({1, 5, 3, 5, 2}, options(1, 1)) == std::vector<int>{1});
  CHECK(kept({1, 5, 3, 5, 2}, options(1, 2)) == std::vector<int>{1, 3});
  CHECK(kept({1, 5, 3, 5, 2}, options(1, 3)) == std::vector<int>{1, 3, 2});
  CHECK(kept({7, 7, 7, 7}, options(1, 2)) == std::vector<int>{0, 1});
  CHECK(kept({1, 5, 3}, options(1, 50)) == std::vector<int>{0, 1, 2});  // nothing to cut: all, by index
  CHECK(kept({1, 5, 3}, options(1, 0)) == std::vector<int>{0, 1, 2});
}
TEST_CASE("05 sampling: top-p keeps the smallest set whose probability reaches p") {
  CHECK(kept(kEighths, options(1, 0, 0.1)) == std::vector<int>{1});
  CHECK(kept(kEighths, options(1, 0, 0.499)) == std::vector<int>{1});
  CHECK(kept(kEighths, options(1, 0, 0.6)) == std::vector<int>{1, 2});
  CHECK(kept(kEighths, options(1, 0, 0.8)) == std::vector<int>{1, 2, 0});
  CHECK(kept(kEighths, options(1, 0, 0.9)) == std::vector<int>{1, 2, 0, 3});
  CHECK(kept({3, 3, 3, 3}, options(1, 0, 0.5)) == std::vector<int>{0, 1});  // exactly p is enough
  CHECK(kept({3, 3, 3, 3}, options(1, 0, 1e-12)) == std::vector<int>{0});   // one always stays
}
TEST_CASE("05 sampling: the order is temperature, top-k, top-p") {
  // after top-k 2 the probabilities are 2/3 and 1/3: p = 0.6 is reached by the first alone, over all four it is not
  CHECK(kept(kEighths, options(1, 2, 0.6)) == std::vector<int>{1});
  CHECK(kept(kEighths, options(1, 0, 0.6)) == std::vector<int>{1, 2});
  // a temperature of 1/2 squares the odds, 1:16:4:1, and 16/22 reaches 0.7 alone
  CHECK(kept(kEighths, options(0.5, 0, 0.7)) == std::vector<int>{1});
  CHECK(kept(kEighths, options(1, 0, 0.7)) == std::vector<int>{1, 2});
}
TEST_CASE("05 sampling: weights are the probabilities, up to a factor") {
  const auto candidates = sampling_candidates(kEighths.data(), 4, options(1));
  REQUIRE(candidates.size() == 4);
  CHECK(candidates[0].weight / candidates[1].weight == Approx(0.25));
  CHECK(candidates[2].weight / candidates[1].weight == Approx(0.5));
  const auto hot = sampling_candidates(kEighths.data(), 4, options(2));
  CHECK(hot[0].weight / hot[1].weight == Approx(0.5));
}
TEST_CASE("05 sampling: NaN and -inf are never chosen, +inf always") {
  CHECK(kept({kNan, 1, -kInf, 2}, options(1)) == std::vector<int>{1, 3});
  CHECK(kept({kNan, 1, -kInf, 2}, options(1, 3)) == std::vector<int>{1, 3});
  CHECK(kept({-kInf, kNan}, options(1)).empty());
  std::mt19937_64 engine(1);
  const std::vector<float> none{kNan, -kInf, -kInf};
  CHECK(sample(none.data(), 3, options(1), engine) == 1);
  for (const auto& [token, count] : histogram({1, kInf, 3e38f, kInf}, options(0.7), 200, 2)) {
    CHECK((token == 1 || token == 3));
    CHECK(count > 50);
  }
}
TEST_CASE("05 sampling: temperature 0 is greedy and draws nothing") {
  std::mt19937_64 engine(5), untouched(5);
  const std::vector<float> logits{1, 4, 4, kNan};
  CHECK(sample(logits.data(), 4, options(0), engine) == 1);
  CHECK(engine() == untouched());
  CHECK(greedy(logits.data(), 4) == 1);
  const std::vector<float> all_nan{kNan, kNan};
  CHECK(greedy(all_nan.data(), 2) == 0);
}
TEST_CASE("05 sampling: draws follow the probabilities") {
  const int draws = 40000;
  const double want[] = {0.125, 0.5, 0.25, 0.125};
  for (const auto& o : {options(1), options(1, 4, 0.9999)}) {
    auto counts = histogram(kEighths, o, draws, 7);
    double chi_squared = 0;
    for (int t = 0; t < 4; ++t) chi_squared += std::pow(counts[t] - draws * want[t], 2) / (draws * want[t]);
    CHECK(chi_squared < 16.3);  // 3 degrees of freedom: exceeded once in a thousand seeds, and this seed is fixed
  }
  auto cut = histogram(kEighths, options(1, 2), draws, 8);
  CHECK(cut.size() == 2);
  CHECK(cut[1] / double(draws) == Approx(2 / 3.0).margin(0.01));
  auto cold = histogram(kEighths, options(0.1), draws, 9);
  CHECK(cold[1] > 0.99 * draws);
}
TEST_CASE("05 sampling: a seed decides everything, another seed something else") {
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = float(i % 37) * 0.1f;
  const auto run = [&](uint64_t seed) {
    std::mt19937_64 engine(seed);
    std::vector<int> tokens;
    for (int i = 0; i < 50; ++i) tokens.push_back(sample(logits.data(), 1000, options(0.8, 40, 0.95), engine));
    return tokens;
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
}
TEST_CASE("05 sampling: weights too small for a double still keep their order") {
  std::vector<float> logits{0, -1000, -999, -2000};
  CHECK(kept(logits, options(0.01, 3)) == std::vector<int>{0, 2, 1});
}
TEST_CASE("05 sampling: options outside their range are refused, with the value") {
  const float logit = 0;
  std::mt19937_64 engine(1);
  CHECK_THROWS_AS(sample(&logit, 1, options(-1), engine), BadInput);
  CHECK_THROWS_AS(sample(&logit, 1, options(kNan), engine), BadInput);
  CHECK_THROWS_AS(sample(&logit, 1, options(kInf), engine), BadInput);
  CHECK_THROWS_AS(sample(&logit, 1, options(1, -3), engine), BadInput);
  CHECK_THROWS_AS(sample(&logit, 1, options(1, 0, 0), engine), BadInput);
  CHECK_THROWS_AS(sample(&logit, 1, options(1, 0, 1.5), engine), BadInput);
  CHECK_THROWS_WITH(sample(&logit, 1, options(1, -3), engine), "top-k -3: wanted a whole number of 0 (off) or more");
}
