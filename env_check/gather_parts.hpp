// The parts of gather(), one for each kind of thing on the machine. Each fills its fields of Facts and needs only what
// its comment names.
#pragma once
#include "env_check/gather.hpp"

namespace env_check {

void gather_environment(Facts& facts);                               // the variables that matter
void gather_toolkits(Facts& facts, const GatherOptions& options);    // nvcc, host compiler, cmake
void gather_system(Facts& facts, const GatherOptions& options);      // kernel, container, sandbox, limits
void gather_containers(Facts& facts, const GatherOptions& options);  // WSL's and Docker's files on this machine
void gather_module(Facts& facts, const GatherOptions& options);      // kernel module; needs system.kernel
void gather_pci(Facts& facts, const GatherOptions& options);         // the cards on the bus
void gather_nodes(Facts& facts, const GatherOptions& options);       // device files; needs the driver's answer
void gather_libraries(Facts& facts, const GatherOptions& options);   // CUDA's libraries, in the loader's order
void gather_toolkit_answers(Facts& facts, const std::string& text);  // `text` as every answer of an nvcc: adds one
void gather_python(Facts& facts, const std::string& answer);         // PyTorch; `answer` of python_question()

// The files of "ldconfig -p" that this processor may get, best first:
// "	libcuda.so.1 (libc6,x86-64, hwcap: "x86-64-v3") => /lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3/libcuda.so.1"
std::vector<std::string> cached_libraries(const std::string& text, const std::vector<std::string>& hwcaps);
std::vector<std::string> python_question(const GatherOptions& options);  // command line; empty without python3

}  // namespace env_check
