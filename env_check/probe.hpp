// Asks the driver's two libraries, each in a process of its own: libcuda (what programs use) and libnvidia-ml (what
// nvidia-smi uses). That one answers proves nothing about the other.
#pragma once
#include <chrono>

#include "env_check/child.hpp"
#include "env_check/facts.hpp"

namespace env_check {

class DriverQuestion {
 public:
  DriverQuestion();  // starts asking
  DriverProbe answer(std::chrono::milliseconds limit);

 private:
  Child child_;
};

class NvmlQuestion {
 public:
  NvmlQuestion();
  NvmlProbe answer(std::chrono::milliseconds limit);

 private:
  Child child_;
};

}  // namespace env_check
