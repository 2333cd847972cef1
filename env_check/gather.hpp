// Fills Facts from the machine this runs on. Needs no rights, changes nothing, sends nothing, and does not throw for
// anything it finds: what cannot be read stays unknown. Whatever could hang or crash runs in a child process with a
// time limit.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "env_check/facts.hpp"

namespace env_check {

struct GatherOptions {
  std::string root;                   // put before /proc, /sys, /dev, /etc, /usr …: a test's made-up machine
  bool ask_driver = true;             // load libcuda and libnvidia-ml
  bool python = true;                 // ask python3 for PyTorch
  std::vector<std::string> binaries;  // files whose device code is to be read
  std::chrono::milliseconds driver_limit{20000};  // cuInit of eight cards without persistence takes seconds
  std::chrono::milliseconds program_limit{5000};  // nvcc --version and the like
  std::chrono::milliseconds python_limit{10000};  // an import of torch, where its files do not say enough
};

Facts gather(const GatherOptions& options = {});

// The device code and libraries of one file, resolved the way the loader would with this environment and these facts.
Binary gather_binary(const std::string& path, const Facts& facts);

}  // namespace env_check
