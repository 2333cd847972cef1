#include "09_cuda_graph_decode/added_tokens.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "09_cuda_graph_decode/utf8.hpp"

namespace {

// Unicode's White_Space.
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// \w of UTS #18: letters, marks, digits, connectors and joiners.
bool is_word(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9);
  }
}

// Start of the last character of a text that is not empty.
size_t last_character(std::string_view text) {
  size_t start = text.size() - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  return start;
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word(utf8_step(text.substr(last_character(text))).code_point);
}

bool starts_with_word(std::string_view text) { return !text.empty() && is_word(utf8_step(text).code_point); }

size_t without_spaces_at_end(std::string_view text) {
  while (!text.empty()) {
    const size_t start = last_character(text);
    if (!is_space(utf8_step(text.substr(start)).code_point)) break;
    text = text.substr(0, start);
  }
  return text.size();
}

size_t spaces_at_start(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Utf8Step step = utf8_step(text.substr(end));
    if (!is_space(step.code_point)) break;
    end += step.bytes;
  }
  return end;
}

}  // namespace

void AddedTokenFinder::add(const AddedToken& token) {
  const int index = static_cast<int>(tokens_.size());
  tokens_.push_back(token);
  std::vector<int>& bucket = by_first_byte_[static_cast<unsigned char>(token.content[0])];
  bucket.push_back(index);
  std::stable_sort(bucket.begin(), bucket.end(),
                   [&](int a, int b) { return tokens_[a].content.size() > tokens_[b].content.size(); });
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text) const {
  for (const int index : by_first_byte_[static_cast<unsigned char>(text[0])]) {
    const AddedToken& token = tokens_[index];
    if (text.substr(0, token.content.size()) == token.content) return &token;
  }
  return nullptr;
}

std::vector<TextPart> AddedTokenFinder::split(std::string_view text) const {
  std::vector<TextPart> parts;
  size_t done = 0;  // everything before it is in `parts`
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = longest_at(text.substr(at));
    if (!token) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->content.size();
    at = end;  // what has matched is used up, even where it turns out not to stand alone
    if (token->single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) continue;
    if (token->lstrip) begin = std::max(done, without_spaces_at_end(text.substr(0, begin)));
    if (token->rstrip) at = end += spaces_at_start(text.substr(end));
    if (begin > done) parts.push_back({-1, text.substr(done, begin - done)});
    parts.push_back({token->id, text.substr(begin, end - begin)});
    done = end;
  }
  if (done < text.size()) parts.push_back({-1, text.substr(done)});
  return parts;
}
