// The stacks on which CUDA threads run.
#pragma once
#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>

namespace simt {

constexpr size_t kStackBytes = 64 * 1024, kGuardBytes = 4096;

// A stack, which serves one CUDA thread after another until one of them has to wait. The guard below it belongs to
// nobody: a thread that needs more stack than there is faults there.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  char* memory = nullptr;
  size_t shift;
  explicit Fiber(size_t number);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  // Stacks that all began at the start of a page would meet in the same few sets of the host's cache.
  char* top() const { return memory + kGuardBytes + kStackBytes - shift; }
  size_t size() const { return kStackBytes - shift; }
  bool holds(uintptr_t address) const {
    return address - reinterpret_cast<uintptr_t>(memory) < kGuardBytes + kStackBytes;
  }
  bool guards(uintptr_t address) const { return address - reinterpret_cast<uintptr_t>(memory) < kGuardBytes; }
};

// A stack for the handlers of the signals of the host thread that makes it: at an overflow the thread has no other.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;

 private:
  char* memory_ = nullptr;  // null: the thread had one before
};

// From now on a fault on a fiber's guard ends the program with the line that `explain` writes for it to `text`. Any
// other fault, for which it returns 0 bytes, is left to whoever was asked before.
using ExplainFault = size_t (*)(uintptr_t address, char* text, size_t capacity);
void explain_faults(ExplainFault explain);

}  // namespace simt
