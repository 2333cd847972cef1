// The tokenizer on a small one made here, and on the published Qwen3 tokenizer where it is at hand.
#include <utf8proc.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "09_cuda_graph_decode/byte_level.hpp"
#include "09_cuda_graph_decode/json_file.hpp"
#include "09_cuda_graph_decode/test_files.hpp"
#include "09_cuda_graph_decode/tokenizer.hpp"
#include "09_cuda_graph_decode/utf8_stream.hpp"

using nlohmann::json;
using Ids = std::vector<int>;

namespace {

const std::string kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// A tokenizer.json in the form of Qwen's: ids 0 … 255 are the bytes in their order, then one id for each merge, then
// the added tokens. Its merges spell a few words byte by byte.
json small_tokenizer() {
  const ByteAlphabet alphabet;
  json vocab = json::object(), merges = json::array();
  int next = 0;
  for (int byte = 0; byte < 256; ++byte) vocab[alphabet.spelling(static_cast<unsigned char>(byte))] = next++;
  const auto merge = [&](const std::string& left, const std::string& right) {
    if (vocab.contains(left + right)) return;
    merges.push_back({left, right});
    vocab[left + right] = next++;
  };
  for (const std::string word :
       {"the", " the", " thread", "ing", "warp", " warp", "é", "你好", "世界", "  ", "\n\n", "ab"}) {
    const bool spaced = word[0] == ' ' && word[1] != ' ';  // " the" is made of " " and "the"
    std::string left;
    for (const char c : spaced ? word.substr(1) : word) {
      const std::string right = alphabet.spelling(static_cast<unsigned char>(c));
      if (!left.empty()) merge(left, right);
      left += right;
    }
    if (spaced) merge("Ġ", left);
  }
  json added = json::array();
  const auto add = [&](const std::string& content, bool special) {
    added.push_back({{"id", next++},
                     {"content", content},
                     {"special", special},
                     {"normalized", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"single_word", false}});
  };
  add("<|im_start|>", true);
  add("<|im_end|>", true);
  add("<think>", false);
  const json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const json split = {{"type", "Split"}, {"pattern", {{"Regex", kQwen}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"added_tokens", added},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"vocab", vocab},
            {"merges", merges}}}};
}

Tokenizer parse(const json& file) { return Tokenizer::parse(file.dump(), "tokenizer.json"); }

// The small tokenizer with one part, given as a JSON pointer, set to something else.
void expect_refused(const std::string& part, const json& value, std::initializer_list<std::string> parts) {
  json file = small_tokenizer();
  file[json::json_pointer(part)] = value;
  INFO(part << " = " << value.dump());
  expect_refusal([&] { parse(file); }, parts);
}

void expect_refused_without(const std::string& parent, const std::string& key,
                            std::initializer_list<std::string> parts) {
  json file = small_tokenizer();
  file[json::json_pointer(parent)].erase(key);
  INFO(parent << " without " << key);
  expect_refusal([&] { parse(file); }, parts);
}

std::string nfc(const std::string& text) {
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &out, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  REQUIRE(bytes >= 0);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, &std::free);
  return std::string(reinterpret_cast<const char*>(out), static_cast<size_t>(bytes));
}

// 10 000 texts out of scripts that stress something: marks, Hangul, spaces of all kinds, emoji, anything at all.
std::vector<std::string> random_texts() {
  struct Range {
    char32_t first, last;
  };
  const Range ranges[] = {{0x20, 0x7E},       {0x20, 0x7E},       {0x20, 0x7E},       {0x00, 0x1F},
                          {0x80, 0x2FF},      {0x300, 0x36F},     {0x370, 0x5FF},     {0x600, 0x6FF},
                          {0x900, 0xDFF},     {0xE00, 0xE7F},     {0x1100, 0x11FF},   {0x1E00, 0x1FFF},
                          {0x2000, 0x206F},   {0x2100, 0x218F},   {0x3000, 0x30FF},   {0x4E00, 0x9FFF},
                          {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFF00, 0xFFEF},   {0x1D400, 0x1D7FF},
                          {0x1F300, 0x1F64F}, {0x20000, 0x2A6DF}, {0x2F800, 0x2FA1F}, {0x0, 0x10FFFF}};
  std::mt19937 random(2024);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::vector<std::string> texts(10'000);
  for (std::string& text : texts) {
    for (std::uint32_t left = below(40); left > 0; --left) {
      const Range range = ranges[below(sizeof ranges / sizeof ranges[0])];
      const char32_t c = range.first + below(range.last - range.first + 1);
      if (c < 0xD800 || c > 0xDFFF) append_utf8(text, c);
    }
  }
  return texts;
}

// decode(encode(s)) = NFC(s), whole and streamed token by token.
void check_round_trip(const Tokenizer& tokenizer) {
  int with_text = 0;
  for (const std::string& text : random_texts()) {
    const Ids ids = tokenizer.encode(text);
    const std::string expected = nfc(text);
    INFO(text);
    REQUIRE(tokenizer.decode(ids) == expected);
    Utf8Stream stream;
    std::string streamed;
    for (const int id : ids) streamed += stream.push(tokenizer.token_bytes(id));
    REQUIRE(streamed + stream.finish() == expected);
    with_text += !text.empty();
  }
  CHECK(with_text > 9000);
}

std::string qwen3_folder() {
  const char* variable = std::getenv("QWEN3_TOKENIZER_DIR");
  return variable ? variable : QWEN3_TOKENIZER_DIR;
}

// The published tokenizer. Where it is not at hand: nothing, the reason printed, and the refusal a user would see.
std::optional<Tokenizer> qwen3_tokenizer() {
  const std::string file = qwen3_folder() + "/tokenizer.json";
  if (std::filesystem::exists(file)) return Tokenizer::load(file);
  std::printf("left out: no tokenizer.json of Qwen3 in %s (QWEN3_TOKENIZER_DIR names the folder)\n",
              qwen3_folder().c_str());
  expect_refusal([&] { Tokenizer::load(file); }, {file, "found nothing"});
  return std::nullopt;
}

}  // namespace

TEST_CASE("tokenizer: the byte alphabet is GPT-2's") {
  const ByteAlphabet alphabet;
  CHECK(alphabet.spelling(' ') == "Ġ");
  CHECK(alphabet.spelling('\n') == "Ċ");
  CHECK(alphabet.spelling(0) == "Ā");
  CHECK(alphabet.spelling('A') == "A");
  CHECK(alphabet.spelling(0xAD) == "Ń");
  CHECK(alphabet.spelling(0xFF) == "ÿ");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    CHECK(alphabet.bytes(alphabet.spelling(static_cast<unsigned char>(byte))) == bytes);
  }
  CHECK(alphabet.bytes("ĠtheĊ") == std::string(" the\n"));
  CHECK_FALSE(alphabet.bytes("▁the").has_value());
  CHECK_FALSE(alphabet.bytes("a b").has_value());
}

TEST_CASE("tokenizer: words, bytes and added tokens") {
  const Tokenizer tokenizer = parse(small_tokenizer());
  const auto id = [&](const std::string& token) { return tokenizer.id_of(token).value(); };
  CHECK(tokenizer.encode("").empty());
  CHECK(tokenizer.encode("the thread") == Ids{id("the"), id("Ġthread")});
  CHECK(tokenizer.encode("them") == Ids{id("the"), 'm'});
  CHECK(tokenizer.encode("12") == Ids{'1', '2'});
  CHECK(tokenizer.encode("你好世界") == Ids{id("ä½łå¥½"), id("ä¸ĸçķĮ")});
  CHECK(tokenizer.encode("<|im_start|>the<|im_end|>\n\n") ==
        Ids{id("<|im_start|>"), id("the"), id("<|im_end|>"), id("ĊĊ")});
  CHECK(tokenizer.encode("<|im_start").size() == 10);
  CHECK_FALSE(tokenizer.id_of("nonsense").has_value());
}

TEST_CASE("tokenizer: ids that Hugging Face tokenizers gives for the same file") {
  const Tokenizer tokenizer = parse(small_tokenizer());
  const auto golden = json::parse(R"GOLDEN([
    ["the thread",[257,263]],
    ["  the warps\n\n\n",[32,258,269,115,282,10]],
    ["abab \u4f60\u597d\uff0c\u4e16\u754c",[283,283,32,275,239,188,140,280]],
    ["e\u0301 cafe\u0301",[270,32,99,97,102,270]],
    ["I'm 'S 12\u00b3",[73,39,109,32,39,83,32,49,50,194,179]],
    ["<|im_start|>the<think>ing<|im_end|>",[284,257,286,265,285]],
    ["<|im_start |><think",[60,124,105,109,95,115,116,97,114,116,32,124,62,60,256,264,107]],
    ["\u1100\u1161\u11a8\u180e x",[234,176,129,225,160,142,32,120]],
    ["\u0915\u094d\u0937 \u212b",[224,164,149,224,165,141,224,164,183,32,195,133]],
    ["\t\r\n warping",[9,13,10,269,265]],
    ["a\u00a0b\u3000the",[97,194,160,98,227,128,128,257]],
    ["\ud83d\ude42\ud83d\ude43the",[240,159,153,130,240,159,153,131,257]]])GOLDEN");
  REQUIRE(golden.size() >= 12);
  for (const json& pair : golden) {
    INFO(pair[0]);
    CHECK(tokenizer.encode(pair[0].get<std::string>()) == pair[1].get<Ids>());
  }
}

TEST_CASE("tokenizer: text of added tokens is spelt out on request") {
  const Tokenizer tokenizer = parse(small_tokenizer());
  const Ids ids = tokenizer.encode("<|im_end|>", false);
  CHECK(ids.size() == 10);
  CHECK(tokenizer.decode(ids, true) == "<|im_end|>");
  CHECK(tokenizer.encode("<|im_end|>").size() == 1);
}

TEST_CASE("tokenizer: merges as pairs and as strings give the same ids") {
  json strings = small_tokenizer();
  for (json& merge : strings["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  const Tokenizer a = parse(small_tokenizer()), b = parse(strings);
  int tokens = 0;
  for (const std::string& text : random_texts()) {
    const Ids ids = a.encode(text + " the warp ing 你好");
    REQUIRE(ids == b.encode(text + " the warp ing 你好"));
    tokens += static_cast<int>(ids.size());
  }
  CHECK(tokens > 100'000);
}

TEST_CASE("tokenizer: decode(encode(s)) = NFC(s) for 10 000 random texts, small tokenizer") {
  check_round_trip(parse(small_tokenizer()));
}

TEST_CASE("tokenizer: NFC where the file asks for it, and only there") {
  json file = small_tokenizer();
  const Tokenizer with = parse(file);
  CHECK(with.decode(with.encode("e\u0301")) == "é");
  CHECK(with.encode("e\u0301") == with.encode("é"));
  CHECK(with.decode(with.encode("\u1112\u1161\u11AB")) == "한");
  CHECK(with.decode(with.encode("\u2126")) == "\u03A9");
  CHECK(with.decode(with.encode("\u0958")) == "\u0915\u093C");  // excluded from composition
  file["normalizer"] = nullptr;
  const Tokenizer without = parse(file);
  CHECK(without.decode(without.encode("e\u0301")) == "e\u0301");
}

TEST_CASE("tokenizer: bytes that are not UTF-8 are read as U+FFFD") {
  const Tokenizer tokenizer = parse(small_tokenizer());
  CHECK(tokenizer.encode("the\xFF") == tokenizer.encode("the\uFFFD"));
  CHECK(tokenizer.encode("\xE4\xBD") == tokenizer.encode("\uFFFD"));
  CHECK(tokenizer.decode(tokenizer.encode(std::string("a\0b", 3))) == std::string("a\0b", 3));
}

TEST_CASE("tokenizer: decoding drops unknown ids, special tokens on request, and halves of characters") {
  const Tokenizer tokenizer = parse(small_tokenizer());
  const int start = tokenizer.id_of("<|im_start|>").value(), think = tokenizer.id_of("<think>").value();
  CHECK(tokenizer.vocab_size() == think + 1);
  CHECK(tokenizer.decode({start, 'a', think}) == "<|im_start|>a<think>");
  CHECK(tokenizer.decode({start, 'a', think}, true) == "a<think>");  // <think> is added but not special
  CHECK(tokenizer.is_special(start));
  CHECK_FALSE(tokenizer.is_special(think));
  CHECK_FALSE(tokenizer.is_special(-1));
  CHECK(tokenizer.decode({-1, 'a', tokenizer.vocab_size(), 1 << 30}) == "a");
  CHECK(tokenizer.token_bytes(tokenizer.vocab_size()) == "");
  CHECK(tokenizer.token_bytes(0xE4) == "\xE4");
  CHECK(tokenizer.decode({0xE4}) == "\uFFFD");
}

TEST_CASE("tokenizer: ByteLevel alone cuts by GPT-2's expression, and may add a space in front") {
  json file = small_tokenizer();
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const Tokenizer plain = parse(file);
  const auto id = [&](const std::string& token) { return plain.id_of(token).value(); };
  CHECK(plain.encode("the the") == Ids{id("the"), id("Ġthe")});
  CHECK(plain.encode("the\n\nx") == Ids{id("the"), '\n', '\n', 'x'});  // GPT-2 leaves the last space to the next word
  file["pre_tokenizer"]["add_prefix_space"] = true;
  const Tokenizer spaced = parse(file);
  CHECK(spaced.encode("the") == Ids{id("Ġthe")});
  CHECK(spaced.encode(" the") == Ids{id("Ġthe")});
  file["pre_tokenizer"] = {{"type", "ByteLevel"}};  // both are true where the file says nothing
  CHECK(parse(file).encode("the warp") == Ids{id("Ġthe"), id("Ġwarp")});
}

TEST_CASE("tokenizer: ignore_merges takes a piece that is a token as a whole") {
  json file = small_tokenizer();
  file["model"]["vocab"]["zzz"] = 5000;
  CHECK(parse(file).encode("zzz") == Ids{'z', 'z', 'z'});
  file["model"]["ignore_merges"] = true;
  CHECK(parse(file).encode("zzz") == Ids{5000});
  CHECK(parse(file).encode("zzzz") == Ids{'z', 'z', 'z', 'z'});
}

TEST_CASE("tokenizer: an added token may be looked for after normalisation") {
  json file = small_tokenizer();
  file["added_tokens"].push_back({{"id", 4000}, {"content", "\u03B1\u0313"}, {"normalized", true}});
  file["added_tokens"].push_back({{"id", 4001}, {"content", "\u03B2\u0313"}, {"normalized", false}});
  const Tokenizer tokenizer = parse(file);
  CHECK(tokenizer.encode("\u1F00") == Ids{4000});  // composed, as its content is after NFC
  CHECK(tokenizer.encode("\u03B1\u0313") == Ids{4000});
  CHECK(tokenizer.encode("\u03B2\u0313") == Ids{4001});
  CHECK(tokenizer.encode("\u03B1\u0313", false).size() > 1);
}

TEST_CASE("tokenizer: an added token that the vocabulary holds too keeps its id and its bytes") {
  json file = small_tokenizer();
  file["added_tokens"].push_back({{"id", 0xE9}, {"content", "é"}, {"normalized", false}});  // é spells byte E9
  const Tokenizer tokenizer = parse(file);
  CHECK(tokenizer.token_bytes(0xE9) == "\xE9");
  CHECK(tokenizer.decode(tokenizer.encode("鞃")) == "鞃");  // E9 9E 83
}

TEST_CASE("tokenizer: parts this reader does not have are named") {
  expect_refused("/normalizer", {{"type", "NFKC"}}, {"tokenizer.json: normalizer", "expected NFC", "found NFKC"});
  expect_refused("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}},
                 {"found Lowercase"});
  expect_refused("/pre_tokenizer", nullptr, {"pre_tokenizer", "ByteLevel", "found nothing"});
  expect_refused("/pre_tokenizer", {{"type", "Metaspace"}}, {"pre_tokenizer", "found Metaspace"});
  expect_refused("/pre_tokenizer/pretokenizers/0/behavior", "Removed", {"behavior", "\"Isolated\"", "\"Removed\""});
  expect_refused("/pre_tokenizer/pretokenizers/0/pattern", {{"Glob", "*"}}, {"pattern", "a Regex or a String"});
  expect_refused("/pre_tokenizer/pretokenizers/0/pattern/Regex", "(", {"Split", "regular expression"});
  expect_refused("/pre_tokenizer/pretokenizers", 3, {"pretokenizers", "a list", "found 3"});
  expect_refused("/post_processor", {{"type", "TemplateProcessing"}}, {"post_processor", "found TemplateProcessing"});
  expect_refused("/decoder", {{"type", "Metaspace"}}, {"decoder", "found Metaspace"});
  expect_refused("/decoder", nullptr, {"decoder", "found nothing"});
  expect_refused("/model/type", "Unigram", {"model", "expected BPE", "found Unigram"});
  expect_refused("/model/dropout", 0.1, {"model.dropout", "found 0.1"});
  expect_refused("/model/byte_fallback", true, {"model.byte_fallback", "found true"});
  expect_refused("/model/continuing_subword_prefix", "##", {"continuing_subword_prefix", "\"##\""});
  expect_refused("/model/end_of_word_suffix", "</w>", {"end_of_word_suffix", "</w>"});
  expect_refused("/model", nullptr, {"model", "expected BPE", "found nothing"});
}

TEST_CASE("tokenizer: vocabulary and merges that are missing or wrong are named") {
  expect_refused_without("/model", "merges", {"tokenizer.json: model.merges", "a list of pairs", "found nothing"});
  expect_refused_without("/model", "vocab", {"tokenizer.json: model.vocab", "found nothing"});
  expect_refused_without("/model/vocab", "Ġ", {"model.vocab", "byte 32", "\"Ġ\""});
  expect_refused("/model/merges", {{"a", "b", "c"}}, {"model.merges[0]", "[left, right]"});
  expect_refused("/model/merges", {"ab"}, {"model.merges[0]", "\"left right\"", "\"ab\""});
  expect_refused("/model/merges", {"a b c"}, {"model.merges[0]", "\"a b c\""});
  expect_refused("/model/merges", {7}, {"model.merges[0]", "found 7"});
  expect_refused("/model/merges", json::array({{"a", "nonsense"}}), {"model.merges[0]", "found \"nonsense\""});
  expect_refused("/model/merges", json::array({{"q", "q"}}), {"model.merges[0]", "found \"qq\""});
  expect_refused("/model/vocab/a", -1, {"model.vocab", "\"a\"", "found -1"});
  expect_refused("/model/vocab/a", "1", {"model.vocab", "\"a\"", "found \"1\""});
  expect_refused("/model/vocab/a", 3000000000, {"model.vocab", "\"a\"", "found 3000000000"});
  expect_refused("/model/vocab/a", 98, {"id 98", "\"a\" and \"b\""});
}

TEST_CASE("tokenizer: added tokens that are wrong are named") {
  expect_refused("/added_tokens", 3, {"added_tokens", "a list", "found 3"});
  expect_refused("/added_tokens/0/content", "", {"added_tokens[0].content", "found \"\""});
  expect_refused("/added_tokens/0/id", nullptr, {"added_tokens[0].id", "found nothing"});
  expect_refused("/added_tokens/0/id", 97, {"id 97", "\"a\" and \"<|im_start|>\""});
  expect_refused("/added_tokens/0/content", "a", {"token \"a\"", "expected one id", "found 97"});
  expect_refused("/added_tokens/1/lstrip", 1, {"added_tokens[1].lstrip", "true or false"});
}

TEST_CASE("tokenizer: files that are missing, empty or no JSON object") {
  const ScratchFolder folder;
  expect_refusal([&] { Tokenizer::load(folder.path()); }, {folder.path() + "/tokenizer.json", "found nothing"});
  const std::string path = folder.write("tokenizer.json", "");
  expect_refusal([&] { Tokenizer::load(folder.path()); }, {path, "empty file"});
  folder.write("tokenizer.json", small_tokenizer().dump().substr(0, 3000));
  expect_refusal([&] { Tokenizer::load(path); }, {path, "expected JSON", "byte"});
  folder.write("tokenizer.json", "[]");
  expect_refusal([&] { Tokenizer::load(path); }, {path, "JSON object", "array"});
  folder.write("tokenizer.json", small_tokenizer().dump());
  CHECK(Tokenizer::load(folder.path()).encode("a") == Tokenizer::load(path).encode("a"));
}

TEST_CASE("tokenizer: Qwen3's golden ids") {
  const std::optional<Tokenizer> tokenizer = qwen3_tokenizer();
  if (!tokenizer) return;
  CHECK(tokenizer->vocab_size() == 151669);
  CHECK(tokenizer->decode({151669, 151935}) == "");  // rows of the embedding that no token has
  const json golden = parse_json(read_file(qwen3_folder() + "/golden_tokens.json"), "golden_tokens.json");
  REQUIRE(golden.size() > 20);
  for (const json& pair : golden) {
    INFO(pair[0]);
    CHECK(tokenizer->encode(pair[0].get<std::string>()) == pair[1].get<Ids>());
  }
}

TEST_CASE("tokenizer: decode(encode(s)) = NFC(s) for 10 000 random texts, Qwen3's tokenizer") {
  if (const std::optional<Tokenizer> tokenizer = qwen3_tokenizer()) check_round_trip(*tokenizer);
}
