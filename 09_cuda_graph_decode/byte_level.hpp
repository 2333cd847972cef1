// 09 · the byte alphabet of GPT-2: each of the 256 bytes has a printable character that spells it in a vocabulary
//
// Printable Latin-1 stands for itself; the other 68 bytes are U+0100, U+0101, … in their order. So "Ġthe" is " the".
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "09_cuda_graph_decode/utf8.hpp"

class ByteAlphabet {
 public:
  ByteAlphabet() {
    byte_of_.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      const char32_t character = printable ? byte : next++;
      append_utf8(spelling_[byte], character);
      byte_of_[character] = static_cast<int>(byte);
    }
  }

  // The character (as UTF-8) that spells a byte.
  const std::string& spelling(unsigned char byte) const { return spelling_[byte]; }

  // The bytes that a vocabulary entry spells; nothing where it holds a character outside the alphabet.
  std::optional<std::string> bytes(std::string_view token) const {
    std::string out;
    while (!token.empty()) {
      const Utf8Step step = utf8_step(token);
      if (step.kind != Utf8Step::kCharacter || step.code_point >= byte_of_.size() || byte_of_[step.code_point] < 0) {
        return std::nullopt;
      }
      out += static_cast<char>(byte_of_[step.code_point]);
      token.remove_prefix(step.bytes);
    }
    return out;
  }

 private:
  std::array<std::string, 256> spelling_;
  std::array<int, 0x100 + 68> byte_of_;
};
