// 09 · the loop around the decoder: choose a token, hand it on, stop where the text ends
#pragma once
#include <atomic>
#include <functional>
#include <vector>

#include "05_online_softmax/sampling.hpp"
#include "09_cuda_graph_decode/npy.hpp"

class Decoder;

struct GenerateOptions {
  int max_new_tokens = 64;
  SamplingOptions sampling{0, 0, 1};        // temperature 0: greedy, chosen on the device
  uint64_t seed = 0;                        // of the sampling
  std::vector<int> eos;                     // ids that end the text
  std::vector<int> forced;                  // teacher forcing: step i is fed forced[i], whatever was chosen
  NpyWriter* logits = nullptr;              // gets one row a step
  std::function<void(int)> on_token;        // called with every token as it comes
  const std::atomic<bool>* stop = nullptr;  // set by Ctrl-C
};

struct Generated {
  std::vector<int> ids;
  enum Reason { kLength, kEos, kInterrupted } reason = kLength;
  double prefill_seconds = 0, decode_seconds = 0;  // host clock, copies and choice of tokens included
};

// Throws BadInput, before any work, for an empty prompt, an id outside the vocabulary, or prompt and new tokens together
// beyond the decoder's capacity.
Generated generate(Decoder& decoder, const std::vector<int>& prompt, const GenerateOptions& options);
