// 09 · added tokens ("<|im_start|>"): text that is one id wherever it stands, found before anything else is done
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

struct AddedToken {
  int id = 0;
  std::string content;
  bool special = false;      // left out of a decoded text on request
  bool single_word = false;  // matches only where no word character touches it
  bool lstrip = false;       // takes the white space before it as well
  bool rstrip = false;       // takes the white space after it as well
  bool normalized = false;   // is looked for in the normalised text, the others in the text as given
};

// A part of a text: an added token, or ordinary text (id -1).
struct TextPart {
  int id;
  std::string_view text;
};

// Finds added tokens: at each place the longest one, from left to right, without overlap.
class AddedTokenFinder {
 public:
  void add(const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // All of `text` (valid UTF-8) in order; parts are views into it.
  std::vector<TextPart> split(std::string_view text) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::array<std::vector<int>, 256> by_first_byte_;  // indices of tokens_, longest first
};
