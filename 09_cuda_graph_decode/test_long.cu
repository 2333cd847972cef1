// Long texts against the plain decoder in double: every step of a thousand, and prompts around the sizes of a tile.
#include <algorithm>
#include <functional>
#include <numeric>

#include "09_cuda_graph_decode/decoder.cuh"
#include "09_cuda_graph_decode/reference_decoder.hpp"
#include "09_cuda_graph_decode/test_models.hpp"
#include "common/catch.hpp"
#include "common/thin_tests.hpp"

namespace {

// As small as the attention kernels allow: a thousand steps take seconds on a CPU.
ModelConfig tiny(ModelConfig config, int layers) {
  config.layers = layers;
  config.hidden = 64;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 64;
  config.intermediate = 96;
  config.vocab = 128;
  config.max_position = 8192;
  return config;
}

std::vector<int> mixed_text(int length, int vocab) {
  std::vector<int> ids;
  for (int i = 0; i < length; ++i) ids.push_back(static_cast<int>((7919ll * i * i + 31ll * i + 5) % vocab));
  return ids;
}

struct Seen {
  std::vector<double> errors;  // ‖Δ‖ / ‖logits‖ of every position
  int decided = 0;
  double worst() const { return *std::max_element(errors.begin(), errors.end()); }
  double mean(size_t begin, size_t end) const {
    return std::accumulate(errors.begin() + long(begin), errors.begin() + long(end), 0.0) / double(end - begin);
  }
};

// Holds one position against the reference: the distance, and the greedy choice where the reference's best is a tenth of
// the logits' RMS ahead of the next. Rounding to bfloat16 between the kernels moves a logit by about a hundredth of it.
void look(Seen& seen, Decoder& decoder, const std::vector<double>& want) {
  seen.errors.push_back(relative_error(decoder.logits(), want));
  std::vector<double> sorted = want;
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
  double squares = 0;
  for (const double v : want) squares += v * v;
  if (sorted[0] - sorted[1] < 0.1 * std::sqrt(squares / double(want.size()))) return;
  ++seen.decided;
  CHECK(decoder.next_token() == std::max_element(want.begin(), want.end()) - want.begin());
}

}  // namespace

TEST_CASE("09 a thousand steps: logits and greedy tokens are those of the plain decoder in double", "[long]") {
  const int steps = thin_tests() ? 8 : 1000;
  const Weights weights(tiny(small_article(), 2), 21);
  const std::vector<int> text = mixed_text(steps + 1, 128);
  const auto want = ReferenceDecoder(weights).logits_from(text, 0);
  Decoder decoder(weights, steps + 2, DecoderOptions());
  decoder.prefill({text[0]});
  Seen seen;
  for (int i = 0; i <= steps; ++i) {
    INFO("position " << i);
    look(seen, decoder, want[size_t(i)]);
    if (i == steps) break;
    decoder.replace_next_token(text[size_t(i) + 1]);
    decoder.step();
  }
  const size_t count = seen.errors.size(), part = std::max(size_t(1), count / 10);
  const double first = seen.mean(0, part), last = seen.mean(count - part, count);
  INFO("worst " << seen.worst() << ", mean " << seen.mean(0, count) << ", of the first tenth " << first
                << ", of the last " << last << ", decided " << seen.decided << " of " << count);
  CHECK(seen.worst() < 0.03);  // the largest of a thousand; a single one is held to 0.02
  CHECK(seen.mean(0, count) < 0.0125);
  if (!thin_tests()) CHECK(last < 1.25 * first);  // nothing adds up along the text; a tenth of nine steps is one
  CHECK(2 * seen.decided > int(count));
}

TEST_CASE("09 contexts around the tiles, up to 4 096: prefill and the steps behind it", "[long]") {
  const std::vector<int> contexts =  // a sanitizer takes minutes for thousands of tokens
      thin_tests() ? std::vector<int>{1, 65} : std::vector<int>{1, 2, 63, 64, 65, 1000, 4096};
  for (const int context : contexts) {
    const Weights weights(tiny(small_qwen3(), context > 1000 ? 1 : 2), 22);
    const std::vector<int> text = mixed_text(context + 3, 128);
    const auto want = ReferenceDecoder(weights).logits_from(text, size_t(context) - 1);
    Decoder decoder(weights, context + 4, DecoderOptions());
    decoder.prefill({text.begin(), text.begin() + context});
    Seen seen;
    for (int i = 0; i < 3; ++i) {
      INFO("context " << context << ", step " << i);
      look(seen, decoder, want[size_t(i)]);
      decoder.replace_next_token(text[size_t(context + i)]);
      decoder.step();
    }
    INFO("context " << context << ": worst " << seen.worst() << ", decided " << seen.decided);
    CHECK(seen.worst() < 0.02);
  }
}
