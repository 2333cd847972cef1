#include "09_cuda_graph_decode/tokenizer.hpp"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unordered_map>

#include "09_cuda_graph_decode/added_tokens.hpp"
#include "09_cuda_graph_decode/bpe.hpp"
#include "09_cuda_graph_decode/byte_level.hpp"
#include "09_cuda_graph_decode/json_file.hpp"
#include "09_cuda_graph_decode/split_regex.hpp"
#include "09_cuda_graph_decode/utf8.hpp"
#include "common/error.hpp"

using nlohmann::json;

namespace {

// What ByteLevel splits by where use_regex is on: GPT-2's expression.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr int kLargestId = (1 << 24) - 1;

// One step of the pre-tokeniser: a space in front where there is none, then a cut into pieces; either may be missing.
struct SplitStep {
  bool add_prefix_space = false;
  std::optional<SplitRegex> regex;
};

std::string to_nfc(std::string_view text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii) return std::string(text);
  utf8proc_uint8_t* normal = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &normal, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (bytes < 0) throw EnvironmentError(fmt::format("NFC of a text failed: {}", utf8proc_errmsg(bytes)));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(normal, &std::free);
  return std::string(reinterpret_cast<const char*>(normal), static_cast<size_t>(bytes));
}

}  // namespace

struct Tokenizer::Parts {
  bool nfc = false;
  bool ignore_merges = false;  // a piece that is a token as a whole is not merged up from bytes
  std::vector<SplitStep> steps;
  AddedTokenFinder as_given, in_normalized;
  std::optional<Bpe> bpe;
  std::unordered_map<std::string, int> ids;           // by spelling: vocabulary and added tokens
  std::unordered_map<std::string, int> ids_by_bytes;  // filled only with ignore_merges
  std::vector<std::string> bytes;                     // by id
  std::vector<char> special;                          // by id

  void encode_text(const std::string& text, bool parse_added, std::vector<int>& out) const;
  void encode_pieces(std::string_view text, size_t step, std::vector<int>& out) const;
};

namespace {

// Reads tokenizer.json into Tokenizer::Parts; each function owns one part of the file and its refusals.
template <typename Parts>
class Reader {
 public:
  Reader(const json& root, std::string source, Parts& parts) : root_(root), source_(std::move(source)), parts_(parts) {}

  void read() {
    read_normalizer(part(root_, "normalizer"));
    read_pre_tokenizer(part(root_, "pre_tokenizer"));
    read_post_processor(part(root_, "post_processor"));
    const json* decoder = part(root_, "decoder");
    if (type_of(decoder) != "ByteLevel") refuse("decoder", "ByteLevel", decoder);
    read_model();
    read_added_tokens();
  }

 private:
  [[noreturn]] void refuse(const std::string& thing, const std::string& expected, const json* found) const {
    std::string text = found ? shown(*found) : "nothing";
    if (const std::string type = type_of(found); !type.empty()) text = type;
    throw BadInput(fmt::format("{}: {}: expected {}, found {}", source_, thing, expected, text));
  }

  // null and absent are the same in this format.
  static const json* part(const json& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto it = object.find(key);
    return it == object.end() || it->is_null() ? nullptr : &*it;
  }

  static std::string type_of(const json* object) {
    const json* type = object ? part(*object, "type") : nullptr;
    return type && type->is_string() ? type->get<std::string>() : std::string();
  }

  bool flag(const json& object, const char* key, bool when_absent, const std::string& thing) const {
    const json* value = part(object, key);
    if (!value) return when_absent;
    if (!value->is_boolean()) refuse(thing + "." + key, "true or false", value);
    return value->template get<bool>();
  }

  int id(const json* value, const std::string& thing) const {
    if (!value || !value->is_number_unsigned() || value->template get<std::uint64_t>() > kLargestId) {
      refuse(thing, fmt::format("an id from 0 to {}", kLargestId), value);
    }
    return value->template get<int>();
  }

  // A step alone, or a Sequence of them under `list_key`.
  std::vector<const json*> sequence(const json* step, const char* list_key, const std::string& thing) const {
    if (!step) return {};
    if (type_of(step) != "Sequence") return {step};
    const json* list = part(*step, list_key);
    if (!list || !list->is_array()) refuse(thing + "." + list_key, "a list", list);
    std::vector<const json*> steps;
    for (const json& entry : *list) steps.push_back(&entry);
    return steps;
  }

  void read_normalizer(const json* normalizer) {
    for (const json* step : sequence(normalizer, "normalizers", "normalizer")) {
      if (type_of(step) != "NFC") refuse("normalizer", "NFC", step);
      parts_.nfc = true;
    }
  }

  void read_pre_tokenizer(const json* pre_tokenizer) {
    bool byte_level = false;
    for (const json* step : sequence(pre_tokenizer, "pretokenizers", "pre_tokenizer")) {
      if (byte_level) refuse("pre_tokenizer", "ByteLevel as the last step", step);
      if (type_of(step) == "Split") {
        read_split(*step);
      } else if (type_of(step) == "ByteLevel") {
        byte_level = true;
        SplitStep split;
        split.add_prefix_space = flag(*step, "add_prefix_space", true, "pre_tokenizer");
        if (flag(*step, "use_regex", true, "pre_tokenizer")) split.regex.emplace(kGpt2Pattern, source_);
        if (split.add_prefix_space || split.regex) parts_.steps.push_back(std::move(split));
      } else {
        refuse("pre_tokenizer", "Split or ByteLevel", step);
      }
    }
    if (!byte_level) refuse("pre_tokenizer", "ByteLevel as the last step", pre_tokenizer);
  }

  void read_split(const json& step) {
    const json* behavior = part(step, "behavior");
    if (!behavior || *behavior != "Isolated") refuse("pre_tokenizer: Split: behavior", "\"Isolated\"", behavior);
    const json* pattern = part(step, "pattern");
    const json* regex = pattern ? part(*pattern, "Regex") : nullptr;
    const json* literal = pattern ? part(*pattern, "String") : nullptr;
    const json* text = regex ? regex : literal;
    if (!text || !text->is_string()) refuse("pre_tokenizer: Split: pattern", "a Regex or a String", pattern);
    const std::string value = text->template get<std::string>();
    SplitStep split;
    split.regex.emplace(regex ? value : SplitRegex::literal(value), source_ + ": pre_tokenizer: Split");
    parts_.steps.push_back(std::move(split));
  }

  void read_post_processor(const json* post_processor) {
    for (const json* step : sequence(post_processor, "processors", "post_processor")) {
      if (type_of(step) != "ByteLevel") refuse("post_processor", "ByteLevel (nothing that adds tokens)", step);
    }
  }

  void read_model() {
    const json* model = part(root_, "model");
    // Files from before the format named its models have no type; only BPE has merges.
    const json* type = model ? part(*model, "type") : nullptr;
    if (!model || !model->is_object() || (type && *type != "BPE")) refuse("model", "BPE", model);
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (const json* affix = part(*model, key); affix && *affix != "")
        refuse(fmt::format("model.{}", key), "nothing", affix);
    }
    if (const json* dropout = part(*model, "dropout"); dropout && *dropout != 0.0)
      refuse("model.dropout", "nothing", dropout);
    if (flag(*model, "byte_fallback", false, "model"))
      refuse("model.byte_fallback", "false", part(*model, "byte_fallback"));
    parts_.ignore_merges = flag(*model, "ignore_merges", false, "model");
    read_vocab(part(*model, "vocab"));
    read_merges(part(*model, "merges"));
  }

  void place(int id, const std::string& spelling, std::string bytes) {
    const size_t index = static_cast<size_t>(id);
    if (parts_.bytes.size() <= index) {
      parts_.bytes.resize(index + 1);
      parts_.special.resize(index + 1, 0);
      owner_.resize(index + 1);
    }
    if (owner_[index] && *owner_[index] != spelling) {
      throw BadInput(fmt::format("{}: id {}: expected one token, found {} and {}", source_, id,
                                 quote_name(*owner_[index]), quote_name(spelling)));
    }
    const auto [it, is_new] = parts_.ids.emplace(spelling, id);
    if (!is_new && it->second != id) {
      throw BadInput(
          fmt::format("{}: token {}: expected one id, found {} and {}", source_, quote_name(spelling), it->second, id));
    }
    if (owner_[index]) return;  // an added token that the vocabulary holds too keeps the bytes it has there
    owner_[index] = spelling;
    parts_.bytes[index] = std::move(bytes);
  }

  void read_vocab(const json* vocab) {
    if (!vocab || !vocab->is_object() || vocab->empty()) refuse("model.vocab", "an object of token: id", vocab);
    parts_.ids.reserve(vocab->size());
    for (const auto& [token, value] : vocab->items()) {
      // An entry with other characters can come out of a model but never out of a text; it is its own spelling.
      const auto bytes = alphabet_.bytes(token);
      const int token_id = id(&value, "model.vocab: " + quote_name(token));
      place(token_id, token, bytes.value_or(token));
      if (parts_.ignore_merges && bytes) parts_.ids_by_bytes.emplace(*bytes, token_id);
    }
    std::array<int, 256> byte_ids;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::string& spelling = alphabet_.spelling(static_cast<unsigned char>(byte));
      const auto it = parts_.ids.find(spelling);
      if (it == parts_.ids.end()) {
        throw BadInput(
            fmt::format("{}: model.vocab: expected a token for each of 256 bytes, found none for byte {} ({})", source_,
                        byte, quote_name(spelling)));
      }
      byte_ids[byte] = it->second;
    }
    parts_.bpe.emplace(byte_ids);
  }

  int merge_part(const std::string& token, size_t rank) const {
    const auto it = parts_.ids.find(token);
    if (it == parts_.ids.end()) {
      throw BadInput(fmt::format("{}: model.merges[{}]: expected tokens of the vocabulary, found {}", source_, rank,
                                 quote_name(token)));
    }
    return it->second;
  }

  void read_merges(const json* merges) {
    if (!merges || !merges->is_array()) refuse("model.merges", "a list of pairs", merges);
    parts_.bpe->reserve(merges->size());
    for (size_t rank = 0; rank < merges->size(); ++rank) {
      const json& merge = (*merges)[rank];
      std::string left, right;
      const std::string thing = fmt::format("model.merges[{}]", rank);
      if (merge.is_string()) {  // the older form; no token holds a space, bytes spell it Ġ
        const std::string text = merge.template get<std::string>();
        const size_t space = text.find(' ');
        if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
          refuse(thing, "\"left right\"", &merge);
        }
        left = text.substr(0, space);
        right = text.substr(space + 1);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        left = merge[0].template get<std::string>();
        right = merge[1].template get<std::string>();
      } else {
        refuse(thing, "\"left right\" or [left, right]", &merge);
      }
      const int left_id = merge_part(left, rank), right_id = merge_part(right, rank);
      parts_.bpe->add_merge(left_id, right_id, static_cast<int>(rank), merge_part(left + right, rank));
    }
  }

  void read_added_tokens() {
    const json* list = part(root_, "added_tokens");
    if (!list) return;
    if (!list->is_array()) refuse("added_tokens", "a list", list);
    for (size_t i = 0; i < list->size(); ++i) {
      const json& entry = (*list)[i];
      const std::string thing = fmt::format("added_tokens[{}]", i);
      const json* content = part(entry, "content");
      if (!content || !content->is_string() || *content == "") refuse(thing + ".content", "a text", content);
      AddedToken token;
      token.content = content->template get<std::string>();
      token.id = id(part(entry, "id"), thing + ".id");
      token.special = flag(entry, "special", false, thing);
      token.single_word = flag(entry, "single_word", false, thing);
      token.lstrip = flag(entry, "lstrip", false, thing);
      token.rstrip = flag(entry, "rstrip", false, thing);
      token.normalized = flag(entry, "normalized", !token.special, thing);
      place(token.id, token.content, token.content);
      parts_.special[static_cast<size_t>(token.id)] = token.special;
      if (token.normalized && parts_.nfc) token.content = to_nfc(token.content);
      (token.normalized ? parts_.in_normalized : parts_.as_given).add(token);
    }
  }

  const json& root_;
  const std::string source_;
  Parts& parts_;
  const ByteAlphabet alphabet_;
  std::vector<std::optional<std::string>> owner_;  // by id: the spelling that has it
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::string& folder_or_file) {
  const bool folder = std::filesystem::is_directory(folder_or_file);
  const std::string path = folder ? folder_or_file + "/tokenizer.json" : folder_or_file;
  return parse(read_file(path), path);
}

Tokenizer Tokenizer::parse(std::string_view json_text, const std::string& source) {
  const json root = parse_json(json_text, source);
  if (!root.is_object()) throw BadInput(fmt::format("{}: expected a JSON object, found {}", source, root.type_name()));
  auto parts = std::make_unique<Parts>();
  Reader<Parts>(root, source, *parts).read();
  return Tokenizer(std::move(parts));
}

void Tokenizer::Parts::encode_pieces(std::string_view text, size_t step, std::vector<int>& out) const {
  if (text.empty()) return;
  if (step == steps.size()) {
    if (ignore_merges) {
      if (const auto it = ids_by_bytes.find(std::string(text)); it != ids_by_bytes.end()) {
        out.push_back(it->second);
        return;
      }
    }
    bpe->encode(text, out);
    return;
  }
  const SplitStep& split = steps[step];
  std::string spaced;
  if (split.add_prefix_space && text[0] != ' ') {
    spaced = ' ' + std::string(text);
    text = spaced;
  }
  if (!split.regex) {
    encode_pieces(text, step + 1, out);
    return;
  }
  for (const std::string_view piece : split.regex->split(text)) encode_pieces(piece, step + 1, out);
}

void Tokenizer::Parts::encode_text(const std::string& text, bool parse_added, std::vector<int>& out) const {
  if (!parse_added || in_normalized.empty()) {
    encode_pieces(text, 0, out);
    return;
  }
  for (const TextPart& part : in_normalized.split(text)) {
    if (part.id >= 0) {
      out.push_back(part.id);
    } else {
      encode_pieces(part.text, 0, out);
    }
  }
}

std::vector<int> Tokenizer::encode(std::string_view utf8, bool parse_added) const {
  const std::string text = replace_invalid_utf8(utf8);
  const std::vector<TextPart> parts = parse_added ? parts_->as_given.split(text) : std::vector<TextPart>{{-1, text}};
  std::vector<int> ids;
  for (const TextPart& part : parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      parts_->encode_text(parts_->nfc ? to_nfc(part.text) : std::string(part.text), parse_added, ids);
    }
  }
  return ids;
}

std::string Tokenizer::decode(const std::vector<int>& ids, bool skip_special) const {
  std::string bytes;
  for (const int id : ids) {
    if (!(skip_special && is_special(id))) bytes += token_bytes(id);
  }
  return replace_invalid_utf8(bytes);
}

std::string Tokenizer::token_bytes(int id) const {
  return id < 0 || id >= vocab_size() ? std::string() : parts_->bytes[static_cast<size_t>(id)];
}

bool Tokenizer::is_special(int id) const {
  return id >= 0 && id < vocab_size() && parts_->special[static_cast<size_t>(id)] != 0;
}

int Tokenizer::vocab_size() const { return static_cast<int>(parts_->bytes.size()); }

std::optional<int> Tokenizer::id_of(const std::string& token) const {
  const auto it = parts_->ids.find(token);
  if (it == parts_->ids.end()) return std::nullopt;
  return it->second;
}
