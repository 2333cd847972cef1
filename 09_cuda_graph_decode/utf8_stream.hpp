// 09 · streaming output: a token may end inside a UTF-8 sequence, a terminal must never see half of one
#pragma once
#include "09_cuda_graph_decode/utf8.hpp"

// Bytes of tokens go in, whole characters come out. Whatever can no longer become UTF-8 comes out as U+FFFD, so the
// pieces put together equal Tokenizer::decode of the same ids.
class Utf8Stream {
 public:
  // Everything that is complete after these bytes; "" while a character is still open.
  std::string push(std::string_view bytes) {
    held_.append(bytes);
    std::string_view rest = held_;
    std::string out;
    while (!rest.empty()) {
      const Utf8Step step = utf8_step(rest);
      if (step.kind == Utf8Step::kIncomplete) break;
      out.append(step.kind == Utf8Step::kCharacter ? rest.substr(0, step.bytes) : std::string_view("\xEF\xBF\xBD"));
      rest.remove_prefix(step.bytes);
    }
    held_.erase(0, held_.size() - rest.size());
    return out;
  }

  // The text is over: an open character can only be U+FFFD. The stream is as new afterwards.
  std::string finish() {
    const std::string out = replace_invalid_utf8(held_);
    held_.clear();
    return out;
  }

 private:
  std::string held_;  // at most 3 bytes between calls
};
