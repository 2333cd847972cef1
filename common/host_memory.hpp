// How much memory of the host a process may still take.
#pragma once
#include <algorithm>
#include <fstream>
#include <string>

// Bytes that the kernel calls available, or fewer where a control group (a container's limit) leaves less; 0 where
// nothing can be read. `root` stands in front of /proc and /sys.
inline double free_host_bytes(const std::string& root = "") {
  // the number behind `key` in a file of "key number" lines; the first number of the file where key is empty; else −1
  const auto number = [&](const char* file, const std::string& key) {
    std::ifstream in(root + file);
    std::string word;
    double value = -1;
    while (!key.empty() && in >> word && word != key) {
    }
    return in >> value ? value : -1;
  };
  double free_bytes = std::max(0.0, 1024 * number("/proc/meminfo", "MemAvailable:"));
  // version 2 of control groups, then 1; the cache of files that are not in use counts as used and can be had
  const char* const files[][4] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
       "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file"}};
  for (const auto& f : files) {
    const double limit = number(f[0], ""), used = number(f[1], "");
    if (limit < 0 || used < 0) continue;  // "max", or no such control group
    free_bytes = std::min(free_bytes, std::max(0.0, limit - used + std::max(0.0, number(f[2], f[3]))));
  }
  return free_bytes;
}
