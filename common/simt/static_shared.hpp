// Where the __shared__ arrays of kernels lie. The executor keeps them in thread_local variables (cuda_types.hpp), one
// copy a host thread, which one block after the other uses.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simt {

// The program's thread_local variables of the calling host thread.
struct ThreadLocals {
  uintptr_t begin = 0, bytes = 0;
};
ThreadLocals thread_locals();
// Is the byte at this offset the compiler's note that a variable has been initialised? g++ keeps one for arrays of vectors.
bool is_guard(uintptr_t offset);

// A piece of them, counted from their first byte.
struct StaticArray {
  uintptr_t offset, bytes;
};
// What a block of a kernel may touch: the arrays that the kernel declares, and those of functions that are no kernels,
// as far as is known: a function that has been launched is one.
struct StaticShared {
  const std::vector<StaticArray>*own, *of_functions;
};
// By the program's symbol table; a program that was stripped of it seems to have none. One call at a time.
StaticShared static_shared(const void* kernel);

}  // namespace simt
