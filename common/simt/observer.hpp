// What an instrumented build hears of the blocks that one host thread runs. Other builds have no observer.
#pragma once
#include <memory>

#include "common/simt/executor.hpp"

namespace simt {

class BlockRunner;

struct AsyncCopy {
  void* to;
  const void* from;
  int bytes, valid_bytes;
  bool done;  // at once: see set_early_copies
  Site site;
  const void* pc;  // where the kernel asked for it
};

// All lanes of the mask have arrived, at a __syncwarp or at something else that they do together.
struct Meeting {
  int warp;
  unsigned mask;
  bool orders, syncwarp;  // orders: see warp_rendezvous
  Site site;
};

class Observer {
 public:
  virtual ~Observer() = default;
  // `first_block` + the block's linear index is a number that no other block of the process has.
  virtual void block_begins(BlockRunner& runner, const Work& work, uint32_t first_block, size_t shared_bytes) = 0;
  virtual std::string block_ends() = 0;  // what was wrong with it, or nothing
  virtual void kernel_ends() = 0;        // no more blocks of it on this host thread

  virtual void turn_begins() = 0;                               // another thread goes on
  virtual void round_ends(const std::vector<int>& paused) = 0;  // no other lane of the warp can go on but these
  virtual void barrier(Site site) = 0;                          // every thread of the block has arrived
  virtual void meeting(const Meeting& meeting) = 0;

  // Of the current thread:
  virtual void copy_begins(const AsyncCopy& copy) = 0;
  virtual void copy_ends(const AsyncCopy& copy) = 0;
  virtual void fence() = 0;
};

// The observer while a kernel's own code runs on this host thread, else null.
inline thread_local Observer* listener = nullptr;

// The executor's work: the standard library's templates that it uses may be instrumented too, where the linker took the
// copy of a program's object file.
class Unheard {
 public:
  Unheard() : before_(listener) { listener = nullptr; }
  ~Unheard() { listener = before_; }
  Unheard(const Unheard&) = delete;

 private:
  Observer* before_;
};

using MakeObserver = std::unique_ptr<Observer> (*)();
// Set before main by the object file that instrumented code pulls in (sanitizer_callbacks.cpp), else null.
void set_observer(MakeObserver make);
MakeObserver observer();

}  // namespace simt
