// What every program here ends with and says of its machine.
#pragma once
#include <functional>
#include <string>

// Runs `body` and turns what it throws into one line and an exit status (common/error.hpp).
int run_main(const std::function<int()>& body);

// "NVIDIA H200 · sm_90 · driver 580.159 · CUDA 13.0 · no TF32" in one line.
std::string machine_text();
// The same as JSON text, for results files: {"name", "sm", "driver", "cuda", "multiprocessors", "memory_bytes"}.
std::string machine_json();
