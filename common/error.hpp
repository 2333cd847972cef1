// The two kinds of trouble a program of this tutorial reports in one line, and the exit status each stands for.
#pragma once
#include <exception>
#include <stdexcept>
#include <string>

// What a process of this repository returns.
enum ExitStatus {
  kOk = 0,           // everything that ran was checked
  kCheckFailed = 1,  // a result was wrong
  kBadInput = 2,     // an option, a shape or a file is wrong
  kEnvironment = 3,  // driver, toolkit, card or memory: `make env_check` explains
  kNothingRan = 77,  // nothing could run here; the reason was printed (CTest reads it as "skipped")
};

// What the user gave is wrong: an option, a shape, a file. The message is one line that names the thing, what was
// expected and what was found. Exit status 2.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The machine cannot do it: no driver, no memory, a CUDA call failed. The message is one line. Exit status 3.
struct EnvironmentError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
