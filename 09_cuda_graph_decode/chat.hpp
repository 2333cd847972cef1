// 09 · the chat template of Qwen, for one question
//
// Covered: an optional system turn, one user turn, the opening of the assistant's turn, and Qwen3's switch that answers
// without thinking. Not covered: earlier turns, tools and tool answers (the Jinja template in tokenizer_config.json).
#pragma once
#include <string>
#include <string_view>

struct ChatOptions {
  // "" leaves the turn out, which is Qwen3's default; Qwen2 and Qwen2.5 put a sentence of their own here.
  std::string system;
  bool no_thinking = false;  // Qwen3: an empty thought is given, so that the answer starts at once
};

// The text to encode with Tokenizer::encode, which turns its markers into their ids. A marker inside `user` becomes an
// id as well, as in Hugging Face's apply_chat_template.
inline std::string chat_prompt(std::string_view user, const ChatOptions& options = {}) {
  const auto turn = [](std::string_view role, std::string_view content) {
    return std::string("<|im_start|>").append(role).append("\n").append(content).append("<|im_end|>\n");
  };
  std::string prompt = options.system.empty() ? "" : turn("system", options.system);
  prompt += turn("user", user);
  prompt += "<|im_start|>assistant\n";
  if (options.no_thinking) prompt += "<think>\n\n</think>\n\n";
  return prompt;
}
