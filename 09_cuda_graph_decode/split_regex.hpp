// 09 · the regular expression that cuts text into the pieces BPE works on, run by PCRE2
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// tokenizer.json's expressions are written for Oniguruma in Ruby syntax. Where PCRE2 reads the same text otherwise, it
// is translated (\s: PCRE2's also holds U+180E) or refused (\h, sets inside sets), never read in silence as something
// else.
class SplitRegex {
 public:
  // Throws BadInput, starting with `source`, for an expression that does not compile or would mean something else.
  SplitRegex(const std::string& pattern, const std::string& source);
  ~SplitRegex();
  SplitRegex(SplitRegex&&) noexcept;
  SplitRegex& operator=(SplitRegex&&) noexcept;

  // An expression that matches exactly this text.
  static std::string literal(std::string_view text);

  // The text cut at both ends of every match ("Isolated"): all of it comes back, in order, in pieces that are not empty.
  // text: valid UTF-8. Throws BadInput where PCRE2 gives up (its limit on backtracking).
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
  std::string source_;
};
