// 09 · one prompt answered: from the command line's model and text to words on the terminal
#pragma once
#include <nlohmann/json.hpp>

#include "09_cuda_graph_decode/command_line.hpp"
#include "09_cuda_graph_decode/tokenizer.hpp"
#include "09_cuda_graph_decode/weights.cuh"

// The tokenizer of --tokenizer, else of the model's folder.
Tokenizer load_tokenizer(const CommandLine& c);

// The weights of --model, --random or the shipped checkpoint.
Weights load_weights(const CommandLine& c);

// Generates and prints as it comes; appends a row with what was measured. Returns the exit status: 130 after Ctrl-C.
int answer(const CommandLine& c, nlohmann::json& rows);
