// What leaves the program: streamed text, chat prompts, logits as .npy.
#include <cstring>

#include "09_cuda_graph_decode/chat.hpp"
#include "09_cuda_graph_decode/json_file.hpp"
#include "09_cuda_graph_decode/npy.hpp"
#include "09_cuda_graph_decode/test_files.hpp"
#include "09_cuda_graph_decode/utf8_stream.hpp"

namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

}  // namespace

TEST_CASE("utf8: what is valid and what is not") {
  CHECK(is_valid_utf8(""));
  CHECK(is_valid_utf8("aé你🙂"));
  CHECK(is_valid_utf8(std::string("\0", 1)));
  CHECK(is_valid_utf8("\xF4\x8F\xBF\xBF"));        // U+10FFFF
  CHECK_FALSE(is_valid_utf8("\xF4\x90\x80\x80"));  // beyond it
  CHECK_FALSE(is_valid_utf8("\xED\xA0\x80"));      // a surrogate
  CHECK_FALSE(is_valid_utf8("\xC0\xAF"));          // overlong
  CHECK_FALSE(is_valid_utf8("\xE0\x80\x80"));
  CHECK_FALSE(is_valid_utf8("\xF0\x8F\xBF\xBF"));
  CHECK_FALSE(is_valid_utf8("\x80"));
  CHECK_FALSE(is_valid_utf8("\xE4\xBD"));
  CHECK_FALSE(is_valid_utf8("\xFF"));
}

TEST_CASE("utf8: one U+FFFD for each maximal subpart (Unicode table 3-8)") {
  const std::string bytes =
      "a\xF1\x80\x80\xE1\x80\xC2"
      "b\x80"
      "c\x80\xBF"
      "d";
  const std::string& r = kReplacement;
  CHECK(replace_invalid_utf8(bytes) == "a" + r + r + r + "b" + r + "c" + r + r + "d");
  CHECK(replace_invalid_utf8("\xED\xA0\x80") == r + r + r);
  CHECK(replace_invalid_utf8("你\xE4\xBD") == "你" + r);
}

TEST_CASE("utf8: a code point and its bytes") {
  for (const char32_t c :
       {U'\0', U'a', U'\u007F', U'\u0080', U'\u07FF', U'\u0800', U'\uFFFF', U'\U00010000', U'\U0010FFFF'}) {
    std::string bytes;
    append_utf8(bytes, c);
    const Utf8Step step = utf8_step(bytes);
    CHECK(step.kind == Utf8Step::kCharacter);
    CHECK(step.code_point == c);
    CHECK(step.bytes == bytes.size());
  }
}

TEST_CASE("utf8 stream: a character split over tokens comes out whole") {
  Utf8Stream stream;
  CHECK(stream.push("a\xE4") == "a");
  CHECK(stream.push("\xBD") == "");
  CHECK(stream.push("\xA0"
                    "b") == "你b");
  CHECK(stream.push("\xF0\x9F\x99\x82") == "🙂");
  CHECK(stream.finish() == "");
}

TEST_CASE("utf8 stream: what can no longer become a character is replaced at once") {
  Utf8Stream stream;
  CHECK(stream.push("\xE4") == "");
  CHECK(stream.push("x") == kReplacement + "x");
  CHECK(stream.push("\x80") == kReplacement);
  CHECK(stream.push("\xE4\xBD") == "");
  CHECK(stream.finish() == kReplacement);
  CHECK(stream.finish() == "");
}

TEST_CASE("utf8 stream: any bytes in any portions give what they give in one") {
  const std::string bytes =
      "é\xE4\xBD你\xFF🙂\xF0\x9F\x99"
      "a\xED\xA0\x80\xC2";
  const std::string whole = replace_invalid_utf8(bytes);
  for (size_t portion = 1; portion <= bytes.size(); ++portion) {
    Utf8Stream stream;
    std::string out;
    for (size_t at = 0; at < bytes.size(); at += portion) {
      const std::string piece = stream.push(bytes.substr(at, portion));
      CHECK(is_valid_utf8(piece));
      out += piece;
    }
    CHECK(out + stream.finish() == whole);
  }
}

TEST_CASE("chat: one question in Qwen's template") {
  CHECK(chat_prompt("Hi") == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  ChatOptions options;
  options.no_thinking = true;
  CHECK(chat_prompt("Hi", options) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
  options.system = "Be brief.";
  options.no_thinking = false;
  CHECK(chat_prompt("你好\n", options) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n你好\n<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("npy: header and rows as NumPy's format 1.0 has them") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/logits.npy";
  const float values[6] = {1.f, -2.5f, 3.f, 4.f, 0.f, 1e-30f};
  write_npy(path, values, 2, 3);
  const std::string bytes = read_file(path);
  REQUIRE(bytes.size() == 128 + sizeof values);
  CHECK(bytes.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  const size_t header_bytes = static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  CHECK((10 + header_bytes) % 64 == 0);
  const std::string expected = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  CHECK(bytes.substr(10, expected.size()) == expected);
  CHECK(bytes.find_first_not_of(' ', 10 + expected.size()) == 9 + header_bytes);
  CHECK(bytes[9 + header_bytes] == '\n');
  CHECK(std::memcmp(bytes.data() + 128, values, sizeof values) == 0);
}

TEST_CASE("npy: rows one by one, none at all, and the largest shape") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/logits.npy";
  const float row[2] = {1.f, 2.f};
  {
    NpyWriter writer(path, 2);
    writer.row(row);
    writer.row(row);
    writer.row(row);
    CHECK(writer.rows() == 3);
    writer.close();
  }
  CHECK(read_file(path).size() == 128 + 24);
  CHECK(read_file(path).find("'shape': (3, 2)") != std::string::npos);
  write_npy(path, row, 0, 151936);
  CHECK(read_file(path).find("'shape': (0, 151936)") != std::string::npos);
}

TEST_CASE("npy: a writer that is not closed leaves no file") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/logits.npy";
  const float row[2] = {1.f, 2.f};
  {
    NpyWriter writer(path, 2);
    writer.row(row);
    CHECK(std::filesystem::exists(path));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("npy: a path that cannot be written, a disk that is full") {
  const ScratchFolder folder;
  expect_refusal([&] { NpyWriter writer(folder.path() + "/none/logits.npy", 2); },
                 {"/none/logits.npy", "cannot be written", "No such file"});
  expect_refusal([&] { NpyWriter writer(folder.path(), 2); }, {folder.path(), "cannot be written"});
  if (std::filesystem::exists("/dev/full")) {
    const std::vector<float> values(1 << 16, 1.f);
    CHECK_THROWS_AS(write_npy("/dev/full", values.data(), 1, values.size()), EnvironmentError);
  }
}
