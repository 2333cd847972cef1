#include "env_check/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace env_check {
namespace {
constexpr size_t kMaxOutput = 1 << 20;

// Reaps `pid` within about half a second; false if it is still there.
bool reap(pid_t pid, int& status) {
  for (int i = 0; i < 50; ++i) {
    const pid_t got = waitpid(pid, &status, WNOHANG);
    if (got == pid) return true;
    if (got < 0 && errno == ECHILD) {  // SIGCHLD is ignored here: it has ended, its status is lost
      status = 0;
      return true;
    }
    usleep(10'000);
  }
  return false;
}
}  // namespace

Child::Child(const std::function<void(int out)>& work) : start_(std::chrono::steady_clock::now()) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);  // a group of its own, so that stopping it also stops what it starts
    signal(SIGPIPE, SIG_DFL);
    const int null = open("/dev/null", O_RDWR);
    if (null >= 0)
      for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
    try {
      work(ends[1]);
    } catch (...) {
      _exit(70);
    }
    _exit(0);
  }
  close(ends[1]);
  if (pid_ < 0) {
    close(ends[0]);
    return;
  }
  setpgid(pid_, pid_);  // in the parent too: whoever comes first
  fd_ = ends[0];
}

Child Child::program(const std::vector<std::string>& command, bool with_errors,
                     const std::vector<std::string>& environment) {
  return Child([&](int out) {
    for (const std::string& entry : environment) {
      const size_t eq = entry.find('=');
      if (eq == std::string::npos)
        unsetenv(entry.c_str());
      else
        setenv(entry.substr(0, eq).c_str(), entry.c_str() + eq + 1, 1);
    }
    dup2(out, 1);
    if (with_errors) dup2(out, 2);
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  });
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), fd_(std::exchange(other.fd_, -1)), start_(other.start_) {}

Child::~Child() {
  if (pid_ > 0) stop();
  if (fd_ >= 0) close(fd_);
}

void Child::stop() {
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  int status = 0;
  reap(pid_, status);
  pid_ = -1;
}

Child::Outcome Child::finish(std::chrono::milliseconds limit) {
  using namespace std::chrono;
  Outcome outcome;
  if (pid_ < 0) return outcome;
  outcome.started = true;
  const auto deadline = start_ + limit;
  char buffer[4096];
  for (;;) {
    const auto left = duration_cast<milliseconds>(deadline - steady_clock::now()).count();
    pollfd waiting{fd_, POLLIN, 0};
    // Even past the deadline one look without waiting: the child may have ended long ago.
    const int ready = poll(&waiting, 1, left > 0 ? static_cast<int>(left) : 0);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      outcome.timed_out = true;
      break;
    }
    const ssize_t got = read(fd_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    outcome.output.append(buffer, static_cast<size_t>(got));
    if (outcome.output.size() > kMaxOutput) {  // nothing we ask writes that much
      outcome.timed_out = true;
      break;
    }
  }
  if (!outcome.timed_out) {
    int status = 0;
    if (reap(pid_, status)) {
      pid_ = -1;
      outcome.crashed = WIFSIGNALED(status);
      outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      return outcome;
    }
    outcome.timed_out = true;  // it closed its output and lives on
  }
  stop();
  return outcome;
}

std::string output_of(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  const Child::Outcome outcome = Child::program(command).finish(limit);
  return outcome.exit_code == 0 ? outcome.output : "";
}

}  // namespace env_check
