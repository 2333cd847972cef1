// What instrumented code calls. It is compiled with -fsanitize=thread and -fsanitize=bounds, and linked with neither
// runtime: these functions stand in for them and hand every access to the recorder of the block that runs.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "common/simt/recorder.hpp"

namespace {

[[maybe_unused]] const bool registered = [] {
  simt::set_observer([]() -> std::unique_ptr<simt::Observer> { return std::make_unique<simt::Recorder>(); });
  return true;
}();

// Calls f(recorder) where a kernel is what runs. Only instrumented programs get here, and their observers are recorders.
template <class F>
void if_listening(F f) {
  if (!simt::listener) return;
  auto& recorder = static_cast<simt::Recorder&>(*simt::listener);
  const simt::Unheard unheard;
  f(recorder);
}

void record(const void* address, int bytes, simt::AccessKind kind, const void* pc) {
  if_listening([&](simt::Recorder& r) { r.access(reinterpret_cast<uintptr_t>(address), bytes, kind, pc); });
}

void record_comparison(const void* pc) {
  if_listening([&](simt::Recorder& r) { r.comparison(pc); });
}

template <class T>
bool exchange(T* p, T* expected, T wanted) {
  bool done = false;
  const auto work = [&] {
    return done = __atomic_compare_exchange_n(p, expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  };
  if (!simt::listener) return work();
  if_listening([&](simt::Recorder& r) { r.in_order(reinterpret_cast<uintptr_t>(p), work); });
  return done;
}

// A structure of any size moves in accesses of at most 16 bytes.
void record_range(const char* address, size_t bytes, simt::AccessKind kind, const void* pc) {
  while (bytes > 0) {
    size_t step = 16;
    while (step > bytes || reinterpret_cast<uintptr_t>(address) % step != 0) step /= 2;
    record(address, static_cast<int>(step), kind, pc);
    address += step, bytes -= step;
  }
}

}  // namespace

#define RETURN_ADDRESS __builtin_return_address(0)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define ACCESSES(bytes)                                                                                    \
  void __tsan_read##bytes(void* p) { record(p, bytes, simt::AccessKind::read, RETURN_ADDRESS); }           \
  void __tsan_write##bytes(void* p) { record(p, bytes, simt::AccessKind::write, RETURN_ADDRESS); }         \
  void __tsan_unaligned_read##bytes(void* p) { record(p, bytes, simt::AccessKind::read, RETURN_ADDRESS); } \
  void __tsan_unaligned_write##bytes(void* p) { record(p, bytes, simt::AccessKind::write, RETURN_ADDRESS); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void* p, size_t bytes) {
  record_range(static_cast<char*>(p), bytes, simt::AccessKind::read, RETURN_ADDRESS);
}
void __tsan_write_range(void* p, size_t bytes) {
  record_range(static_cast<char*>(p), bytes, simt::AccessKind::write, RETURN_ADDRESS);
}

// Atomics: host code uses all of them; a kernel's are a load and compare-and-exchanges until one succeeds
// (intrinsics.hpp). The load stands for the access, the success for its place in the order of all.
#define FETCH(bits, T, name) \
  T __tsan_atomic##bits##_fetch_##name(T* p, T v, int) { return __atomic_fetch_##name(p, v, __ATOMIC_SEQ_CST); }
#define ATOMICS(bits, T)                                                                                      \
  T __tsan_atomic##bits##_load(const T* p, int) {                                                             \
    record(p, bits / 8, simt::AccessKind::atomic, RETURN_ADDRESS);                                            \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                              \
  }                                                                                                           \
  void __tsan_atomic##bits##_store(T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }              \
  T __tsan_atomic##bits##_exchange(T* p, T v, int) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }    \
  FETCH(bits, T, add)                                                                                         \
  FETCH(bits, T, sub)                                                                                         \
  FETCH(bits, T, and)                                                                                         \
  FETCH(bits, T, or)                                                                                          \
  FETCH(bits, T, xor)                                                                                         \
  FETCH(bits, T, nand) bool __tsan_atomic##bits##_compare_exchange_strong(T* p, T* expected, T v, int, int) { \
    return exchange(p, expected, v);                                                                          \
  }                                                                                                           \
  bool __tsan_atomic##bits##_compare_exchange_weak(T* p, T* expected, T v, int, int) {                        \
    return exchange(p, expected, v);                                                                          \
  }                                                                                                           \
  T __tsan_atomic##bits##_compare_exchange_val(T* p, T expected, T v, int, int) {                             \
    exchange(p, &expected, v);                                                                                \
    return expected;                                                                                          \
  }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

// A comparison of whole numbers, where ways may part: see RequestLog::pass.
#define COMPARISONS(bits)                                                       \
  void __sanitizer_cov_trace_cmp##bits() { record_comparison(RETURN_ADDRESS); } \
  void __sanitizer_cov_trace_const_cmp##bits() { record_comparison(RETURN_ADDRESS); }
COMPARISONS(1)
COMPARISONS(2)
COMPARISONS(4)
COMPARISONS(8)
void __sanitizer_cov_trace_cmpf() {}
void __sanitizer_cov_trace_cmpd() {}
void __sanitizer_cov_trace_switch() { record_comparison(RETURN_ADDRESS); }

void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}

// An index outside of an array whose size the compiler knows. The layout is that of the compilers' own runtime.
struct BoundsData {
  const char* file;
  uint32_t line, column;
  const struct {
    uint16_t kind, info;
    char name[1];
  } * array, *index;
};
void __ubsan_handle_out_of_bounds(BoundsData* data, uintptr_t index) {
  const auto where = [=] { return fmt::format("{}:{}", data->file, data->line); };
  const auto what = [=] {
    return fmt::format("out of bounds: index {} of {}", static_cast<intptr_t>(index), data->array->name);
  };
  if_listening([&](simt::Recorder& recorder) { recorder.give_up(where(), what()); });
  fmt::print(stderr, "{}: {}\n", where(), what());
  std::abort();
}
void __ubsan_handle_out_of_bounds_abort(BoundsData* data, uintptr_t index) {
  __ubsan_handle_out_of_bounds(data, index);
}

}  // extern "C"
