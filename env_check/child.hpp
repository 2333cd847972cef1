// Work in a process of its own, with a time limit: a driver call can hang or crash, and a failed one poisons its process.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace env_check {

class Child {
 public:
  struct Outcome {
    bool started = false, timed_out = false, crashed = false;
    int exit_code = -1;
    std::string output;  // what it wrote before it ended or was stopped, at most 1 MiB
  };

  // Starts `work` in a forked process; what it writes to the file descriptor it is given is the child's output. The
  // child has no standard input or output, and leaves by _exit when `work` returns.
  explicit Child(const std::function<void(int out)>& work);

  // Starts a program by its path, without a shell; its standard output (and error, if asked) is the child's output.
  // `environment` holds NAME=VALUE to set, or NAME to remove.
  static Child program(const std::vector<std::string>& command, bool with_errors = false,
                       const std::vector<std::string>& environment = {});

  Child(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child& operator=(Child&&) = delete;
  ~Child();  // stops a child that nobody waited for

  // Waits until it ends; stops it (and its own children) when `limit` has passed since it was started. A process that
  // even SIGKILL does not end (it hangs inside the kernel) is left behind, never waited for.
  Outcome finish(std::chrono::milliseconds limit);

 private:
  void stop();
  pid_t pid_ = -1;
  int fd_ = -1;
  std::chrono::steady_clock::time_point start_;
};

// finish() of a program in one call; "" when it failed in any way.
std::string output_of(const std::vector<std::string>& command, std::chrono::milliseconds limit);

}  // namespace env_check
