// The cut into pieces by regular expression, and added tokens found before it.
#include "09_cuda_graph_decode/added_tokens.hpp"
#include "09_cuda_graph_decode/split_regex.hpp"
#include "09_cuda_graph_decode/test_files.hpp"

namespace {

const std::string kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::string> pieces(const std::string& pattern, const std::string& text) {
  const SplitRegex regex(pattern, "tokenizer.json");
  std::vector<std::string> out;
  for (const std::string_view piece : regex.split(text)) out.emplace_back(piece);
  return out;
}

using Strings = std::vector<std::string>;

AddedToken token(int id, const std::string& content) {
  AddedToken t;
  t.id = id;
  t.content = content;
  return t;
}

// "[id]" for an added token with the text it took, the text itself for the rest.
Strings parts(const AddedTokenFinder& finder, const std::string& text) {
  Strings out;
  for (const TextPart& part : finder.split(text)) {
    out.push_back(part.id < 0 ? std::string(part.text)
                              : "[" + std::to_string(part.id) + ":" + std::string(part.text) + "]");
  }
  return out;
}

}  // namespace

TEST_CASE("split: words, digits, punctuation and space as Qwen cuts them") {
  CHECK(pieces(kQwen, "Hello world") == Strings{"Hello", " world"});
  CHECK(pieces(kQwen, "1234") == Strings{"1", "2", "3", "4"});
  CHECK(pieces(kQwen, "I'm, you'RE") == Strings{"I", "'m", ",", " you", "'RE"});
  CHECK(pieces(kQwen, "a \n b") == Strings{"a", " \n", " b"});
  CHECK(pieces(kQwen, "a\n  b") == Strings{"a", "\n", " ", " b"});
  CHECK(pieces(kQwen, "(x):\n") == Strings{"(x", "):\n"});
  CHECK(pieces(kQwen, "x   ") == Strings{"x", "   "});
  CHECK(pieces(kQwen, "你好，世界") == Strings{"你好", "，世界"});
  CHECK(pieces(kQwen, "नम") == Strings{"नम"});
  CHECK(pieces(kQwen, "स्त") == Strings{"स", "्त"});  // a mark is no letter
}

TEST_CASE("split: nothing is lost, whatever does not match included") {
  CHECK(pieces("[0-9]+", "ab12cd34") == Strings{"ab", "12", "cd", "34"});
  CHECK(pieces("[0-9]+", "none") == Strings{"none"});
  CHECK(pieces("[0-9]+", "").empty());
}

TEST_CASE("split: an empty match cuts where it stands and does not stop the search") {
  CHECK(pieces("(?=b)", "abab") == Strings{"a", "ba", "b"});
  CHECK(pieces("x*", "axxb") == Strings{"a", "xx", "b"});
}

TEST_CASE("split: \\s is Unicode's White_Space, as in Oniguruma") {
  const std::string mongolian_separator = "\xE1\xA0\x8E", next_line = "\xC2\x85", wide_space = "\xE3\x80\x80";
  CHECK(pieces(R"(\s)", "a" + mongolian_separator + "b") == Strings{"a" + mongolian_separator + "b"});
  CHECK(pieces(R"(\s)", "a" + next_line + "b") == Strings{"a", next_line, "b"});
  CHECK(pieces(R"(\s)", "a" + wide_space + "b") == Strings{"a", wide_space, "b"});
  CHECK(pieces(R"([^\sa]+)", "a" + mongolian_separator + " b") == Strings{"a", mongolian_separator, " ", "b"});
  CHECK(pieces(R"(\S+)", " x" + mongolian_separator) == Strings{" ", "x" + mongolian_separator});
}

TEST_CASE("split: an expression that is wrong, or that PCRE2 would read otherwise, is refused") {
  const auto refused = [](const std::string& pattern, std::initializer_list<std::string> parts) {
    INFO(pattern);
    expect_refusal([&] { SplitRegex regex(pattern, "tokenizer.json"); }, parts);
  };
  refused("(a", {"tokenizer.json", "regular expression", "parenthesis"});
  refused(R"(\p{Nonsense})", {"tokenizer.json", "regular expression"});
  refused(R"([\Sa])", {"tokenizer.json", "\\S inside a set"});
  refused(R"(\h+)", {"tokenizer.json", "\\h"});
  refused(R"([a[bc]])", {"tokenizer.json", "a set inside a set"});
  refused(R"([a-z&&[^b]])", {"tokenizer.json", "an intersection"});
}

TEST_CASE("split: a literal is taken as it stands") {
  CHECK(pieces(SplitRegex::literal("a.b"), "a.b axb") == Strings{"a.b", " axb"});
  CHECK(pieces(SplitRegex::literal("(é|"), "x(é|y") == Strings{"x", "(é|", "y"});
}

TEST_CASE("split: long runs neither overflow nor crawl") {
  CHECK(pieces(kQwen, std::string(300'000, ' ') + "x") == Strings{std::string(299'999, ' '), " x"});
  CHECK(pieces(kQwen, std::string(300'000, 'a')).size() == 1);
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += " \n";
  CHECK(pieces(kQwen, lines).size() == 1);
}

TEST_CASE("added tokens: the longest one, from left to right") {
  AddedTokenFinder finder;
  CHECK(finder.empty());
  finder.add(token(1, "<a>"));
  finder.add(token(2, "<a>b"));
  finder.add(token(3, "b"));
  CHECK(parts(finder, "x<a>bb<a>") == Strings{"x", "[2:<a>b]", "[3:b]", "[1:<a>]"});
  CHECK(parts(finder, "<a") == Strings{"<a"});
  CHECK(parts(finder, "").empty());
}

TEST_CASE("added tokens: lstrip and rstrip take the white space beside them") {
  AddedTokenFinder finder;
  AddedToken left = token(1, "<l>"), right = token(2, "<r>");
  left.lstrip = true;
  right.rstrip = true;
  finder.add(left);
  finder.add(right);
  CHECK(parts(finder, "a \n<l> b") == Strings{"a", "[1: \n<l>]", " b"});
  CHECK(parts(finder, "a <r>\xE3\x80\x80 b") == Strings{"a ", "[2:<r>\xE3\x80\x80 ]", "b"});
  CHECK(parts(finder, "<r> <l>") == Strings{"[2:<r> ]", "[1:<l>]"});  // a space goes to the first that takes it
}

TEST_CASE("added tokens: single_word stands alone or not at all") {
  AddedTokenFinder finder;
  AddedToken word = token(1, "stop");
  word.single_word = true;
  finder.add(word);
  CHECK(parts(finder, "stop") == Strings{"[1:stop]"});
  CHECK(parts(finder, "a stop.") == Strings{"a ", "[1:stop]", "."});
  CHECK(parts(finder, "nonstop stops 停stop") == Strings{"nonstop stops 停stop"});
}
