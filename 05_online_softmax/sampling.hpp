// Choosing a token from logits on the host: temperature, top-k, top-p, in the order of Hugging Face transformers.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/error.hpp"

struct SamplingOptions {
  double temperature = 1;  // logits are divided by it; 0: the largest logit, nothing random
  int top_k = 0;           // only the k largest logits stay; 0: all
  double top_p = 1;        // of those, the smallest set whose probability reaches p stays; 1: all
};

struct Candidate {
  int token;
  double weight;  // its probability times a factor common to all candidates
};

// Throws BadInput, naming the value, for options outside their range.
inline void check_sampling_options(const SamplingOptions& o) {
  if (!(o.temperature >= 0) || std::isinf(o.temperature))
    throw BadInput("temperature " + std::to_string(o.temperature) + ": wanted a number of 0 or more");
  if (o.top_k < 0) throw BadInput("top-k " + std::to_string(o.top_k) + ": wanted a whole number of 0 (off) or more");
  if (!(o.top_p > 0) || o.top_p > 1)
    throw BadInput("top-p " + std::to_string(o.top_p) + ": wanted a number above 0 and at most 1");
}

// The largest of the n ≥ 1 logits; the smallest index of equal ones; NaN ignored; 0 where all are NaN. The same rule as
// argmax() on the device.
inline int greedy(const float* logits, int n) {
  int best = -1;
  for (int i = 0; i < n; ++i)
    if (!std::isnan(logits[i]) && (best < 0 || logits[i] > logits[best])) best = i;
  return best < 0 ? 0 : best;
}

// The tokens that may be chosen, with their weights. temperature > 0.
//  1. Every logit is divided by the temperature. NaN and −inf are out; a logit of +inf shares all the probability with
//     the others of +inf.
//  2. top-k: the k largest stay. Of equal logits the smaller index stays, so there are never more than k (transformers
//     keeps all that equal the k-th).
//  3. top-p, on the probabilities renormalised after step 2: the shortest run of the largest ones whose sum is at least
//     p; equal ones by index. At least one always stays.
// With top-k or top-p the candidates come largest first, else by index. None where every logit is NaN or −inf.
inline std::vector<Candidate> sampling_candidates(const float* logits, int n, const SamplingOptions& options) {
  check_sampling_options(options);
  float max = -std::numeric_limits<float>::infinity();
  for (int i = 0; i < n; ++i)
    if (logits[i] > max) max = logits[i];
  std::vector<Candidate> all;
  for (int i = 0; i < n; ++i)
    if (logits[i] > -std::numeric_limits<float>::infinity())  // false for NaN
      all.push_back({i, logits[i] == max ? 1. : std::exp((double(logits[i]) - double(max)) / options.temperature)});

  const bool cut_k = options.top_k > 0 && size_t(options.top_k) < all.size(), cut_p = options.top_p < 1;
  if (!cut_k && !cut_p) return all;
  // A heap, for only the first few are wanted in order. It compares logits: far from the maximum, weights underflow to 0.
  const auto behind = [&](const Candidate& a, const Candidate& b) {
    const float x = logits[a.token], y = logits[b.token];
    return x < y || (x == y && a.token > b.token);
  };
  double total = 0;
  for (const Candidate& c : all) total += c.weight;
  std::vector<Candidate> kept;
  const auto take_next = [&] {
    std::pop_heap(all.begin(), all.end(), behind);
    kept.push_back(all.back());
    all.pop_back();
  };
  std::make_heap(all.begin(), all.end(), behind);
  if (cut_k) {
    while (kept.size() < size_t(options.top_k)) take_next();
    if (!cut_p) return kept;
    total = 0;
    for (const Candidate& c : kept) total += c.weight;
    double sum = 0;
    size_t count = 0;
    while (count < kept.size() && (count == 0 || sum < options.top_p * total)) sum += kept[count++].weight;
    kept.resize(count);
  } else {
    for (double sum = 0; !all.empty() && (kept.empty() || sum < options.top_p * total); sum += kept.back().weight)
      take_next();
  }
  return kept;
}

// One token of the n ≥ 1 logits. Uses the engine exactly once, or not at all where the temperature is 0 or there is no
// candidate (then the token is greedy()): the same seed gives the same tokens on every machine.
inline int sample(const float* logits, int n, const SamplingOptions& options, std::mt19937_64& engine) {
  check_sampling_options(options);
  if (options.temperature <= 0) return greedy(logits, n);
  const std::vector<Candidate> candidates = sampling_candidates(logits, n, options);
  if (candidates.empty()) return greedy(logits, n);
  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  // 53 random bits as a number in [0, 1); std::uniform_real_distribution is not the same everywhere
  double left = double(engine() >> 11) * 0x1p-53 * total;
  for (const Candidate& c : candidates) {
    if (left < c.weight) return c.token;
    left -= c.weight;
  }
  return candidates.back().token;  // only by rounding
}
