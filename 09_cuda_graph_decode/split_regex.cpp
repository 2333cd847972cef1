#include "09_cuda_graph_decode/split_regex.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "09_cuda_graph_decode/utf8.hpp"
#include "common/error.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace {

// Unicode's White_Space, as in Oniguruma; without brackets, to stand inside a set as well.
constexpr const char* kSpaces =
    R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

std::string for_pcre2(const std::string& pattern, const std::string& source) {
  const auto refuse = [&](const char* found) {
    throw BadInput(fmt::format("{}: expected an expression that PCRE2 reads like Oniguruma, found {}", source, found));
  };
  std::string out;
  bool in_set = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\' && next != '\0') {
      ++i;
      if (next == 's') {
        out += in_set ? std::string(kSpaces) : fmt::format("[{}]", kSpaces);
      } else if (next == 'S') {
        if (in_set) refuse("\\S inside a set");
        out += fmt::format("[^{}]", kSpaces);
      } else if (next == 'h' || next == 'H') {
        refuse("\\h (a hexadecimal digit there, a space here)");
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    if (in_set && c == '[') refuse("a set inside a set");
    if (in_set && c == '&' && next == '&') refuse("an intersection of sets");
    if (c == '[') in_set = true;
    if (c == ']') in_set = false;
    out += c;
  }
  return out;
}

struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

std::string error_text(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct SplitRegex::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  ~Code() { pcre2_code_free(code); }
  pcre2_code* code;
};

SplitRegex::SplitRegex(SplitRegex&&) noexcept = default;
SplitRegex& SplitRegex::operator=(SplitRegex&&) noexcept = default;
SplitRegex::~SplitRegex() = default;

SplitRegex::SplitRegex(const std::string& pattern, const std::string& source) : source_(source) {
  const std::string translated = for_pcre2(pattern, source);
  int error = 0;
  PCRE2_SIZE where = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr);
  if (!code) {
    throw BadInput(
        fmt::format("{}: expected a regular expression, found a mistake in it: {}", source, error_text(error)));
  }
  code_ = std::make_unique<Code>(code);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where there is no JIT, pcre2_match interprets the same code
}

std::string SplitRegex::literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    // PCRE2 takes a backslash before any ASCII character that is no letter or digit as "this character itself".
    const bool plain = static_cast<unsigned char>(c) >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                       (c >= 'a' && c <= 'z');
    if (!plain) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::vector<std::string_view> SplitRegex::split(std::string_view text) const {
  constexpr size_t kFirstStack = 32 * 1024, kLargestStack = 16 * 1024 * 1024;
  const std::unique_ptr<pcre2_match_data, FreeContext> data(pcre2_match_data_create_from_pattern(code_->code, nullptr));
  const std::unique_ptr<pcre2_jit_stack, FreeContext> stack(
      pcre2_jit_stack_create(kFirstStack, kLargestStack, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeContext> context(pcre2_match_context_create(nullptr));
  if (!data || !context) throw EnvironmentError(source_ + ": no memory to match in");
  if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());

  std::vector<std::string_view> pieces;
  size_t cut = 0;  // everything before it is in `pieces`
  const auto cut_at = [&](size_t end) {
    if (end > cut) pieces.push_back(text.substr(cut, end - cut));
    cut = end;
  };
  size_t from = 0;
  while (from <= text.size()) {
    const int found = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                  PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) throw BadInput(fmt::format("{}: the text is too hard for it: {}", source_, error_text(found)));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    cut_at(range[0]);
    cut_at(range[1]);
    from = range[1];
    if (range[0] == range[1]) {  // an empty match: step over one character, or it would be found for ever
      if (from == text.size()) break;
      from += utf8_step(text.substr(from)).bytes;
    }
  }
  cut_at(text.size());
  return pieces;
}
