// 09 · UTF-8: one decoder that the tokenizer, the streaming output and the file checks share
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

// What stands at the front of some bytes.
struct Utf8Step {
  enum Kind { kCharacter, kInvalid, kIncomplete };
  Kind kind;
  std::size_t bytes;    // length of the character, or of the longest valid beginning of one (at least 1)
  char32_t code_point;  // for kCharacter
};

// Decodes the first character of `text`, which must not be empty. Surrogates, overlong forms and values beyond U+10FFFF
// are invalid. kIncomplete: the text ends before the character does.
inline Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {Utf8Step::kCharacter, 1, lead};
  const std::size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0) return {Utf8Step::kInvalid, 1, 0};
  char32_t value = lead & (0x7F >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Step::kIncomplete, i, 0};
    // The second byte's range keeps out overlong forms, surrogates and what lies beyond U+10FFFF.
    const unsigned low = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < low || byte(i) > high) return {Utf8Step::kInvalid, i, 0};
    value = value << 6 | (byte(i) & 0x3F);
  }
  return {Utf8Step::kCharacter, length, value};
}

inline bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind != Utf8Step::kCharacter) return false;
    text.remove_prefix(step.bytes);
  }
  return true;
}

// The text with U+FFFD in the place of each maximal subpart that is not UTF-8 (Unicode §3.9, table 3-8).
inline std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind == Utf8Step::kCharacter) {
      out.append(text.substr(0, step.bytes));
    } else {
      out.append("\xEF\xBF\xBD");
    }
    text.remove_prefix(step.bytes);
  }
  return out;
}

inline void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  const int tail = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  const unsigned lead[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(lead[tail] | c >> (6 * tail));
  for (int i = tail - 1; i >= 0; --i) out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
}
