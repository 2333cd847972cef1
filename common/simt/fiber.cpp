#include "common/simt/fiber.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "common/error.hpp"

namespace simt {
namespace {

char* map(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw EnvironmentError("executor: no memory for the stacks of a block's threads");
  return static_cast<char*>(p);
}

constexpr size_t kSignalStackBytes = 64 * 1024;
ExplainFault explain_fault = nullptr;
struct sigaction asked_before;

void on_fault(int number, siginfo_t* info, void*) {
  static char text[1024];
  const size_t length = explain_fault(reinterpret_cast<uintptr_t>(info->si_addr), text, sizeof text);
  if (length > 0) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, length);
    std::_Exit(1);
  }
  sigaction(number, &asked_before, nullptr);  // the instruction faults again, for them
}

}  // namespace

Fiber::Fiber(size_t number) : memory(map(kGuardBytes + kStackBytes)), shift(number * 5 % 64 * 64) {
  mprotect(memory, kGuardBytes, PROT_NONE);
}
Fiber::~Fiber() { munmap(memory, kGuardBytes + kStackBytes); }

SignalStack::SignalStack() {
  stack_t stack{};
  sigaltstack(nullptr, &stack);
  if (!(stack.ss_flags & SS_DISABLE)) return;
  stack.ss_sp = memory_ = map(kSignalStackBytes);
  stack.ss_size = kSignalStackBytes;
  stack.ss_flags = 0;
  sigaltstack(&stack, nullptr);
}
SignalStack::~SignalStack() {
  if (!memory_) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  munmap(memory_, kSignalStackBytes);
}

void explain_faults(ExplainFault explain) {
  explain_fault = explain;
  struct sigaction now;
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault) return;
  asked_before = now;
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace simt
