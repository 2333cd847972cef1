// 09 · text to token ids and back: byte-level BPE as a Hugging Face tokenizer.json describes it
//
// Text → added tokens cut out → NFC → pieces by a regular expression → bytes → BPE merges by rank → ids.
// Source: github.com/huggingface/tokenizers; Sennrich et al. 2016, "Neural Machine Translation of Rare Words with
// Subword Units", for BPE; the byte alphabet is GPT-2's.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

class Tokenizer {
 public:
  // A folder with tokenizer.json, or the file itself. Throws BadInput (file, part, expected, found) for a part this
  // reader does not have: another model than BPE, a normaliser other than NFC, a pre-tokeniser other than Split and
  // ByteLevel, a post-processor that adds tokens, missing vocabulary or merges, a byte without a token.
  static Tokenizer load(const std::string& folder_or_file);

  // The same from text; `source` stands in messages for the file's name.
  static Tokenizer parse(std::string_view json_text, const std::string& source);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids of a text. Never adds a BOS or anything else that is not in the text.
  // parse_added: the text of an added token ("<|im_end|>") becomes its id; otherwise it is spelt out like other text.
  // A byte sequence that is not UTF-8 is read as U+FFFD, one for each maximal subpart (Unicode §3.9, table 3-8).
  std::vector<int> encode(std::string_view utf8, bool parse_added = true) const;

  // Text of ids, always valid UTF-8: what the bytes leave incomplete becomes U+FFFD. Ids outside the vocabulary give
  // nothing. skip_special drops added tokens marked special, and only those.
  std::string decode(const std::vector<int>& ids, bool skip_special = false) const;

  // Bytes of one token, which may be part of a UTF-8 sequence; "" for an id outside the vocabulary.
  std::string token_bytes(int id) const;

  bool is_special(int id) const;                             // an added token marked special
  int vocab_size() const;                                    // highest id + 1; a model may have more rows than that
  std::optional<int> id_of(const std::string& token) const;  // of an added token's text or a vocabulary entry

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};
