// A part of an open file that cannot be left: every read is checked against its end.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace env_check {

// The bytes [base, base + size). Reads outside fail instead of reading something else.
class Window {
 public:
  Window(int fd, uint64_t base, uint64_t size) : fd_(fd), base_(base), size_(size) {}
  uint64_t size() const { return size_; }
  bool holds(uint64_t at, uint64_t n) const { return at <= size_ && n <= size_ - at; }
  bool read(uint64_t at, void* to, uint64_t n) const {
    if (!holds(at, n)) return false;
    char* p = static_cast<char*>(to);
    while (n > 0) {
      const ssize_t got = pread(fd_, p, n, static_cast<off_t>(base_ + at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      p += got, at += static_cast<uint64_t>(got), n -= static_cast<uint64_t>(got);
    }
    return true;
  }
  template <class T>
  bool read(uint64_t at, T& value) const {
    return read(at, &value, sizeof value);
  }
  Window part(uint64_t at, uint64_t n) const {  // clipped to this window
    at = std::min(at, size_);
    return {fd_, base_ + at, std::min(n, size_ - at)};
  }

 private:
  int fd_;
  uint64_t base_, size_;
};

}  // namespace env_check
