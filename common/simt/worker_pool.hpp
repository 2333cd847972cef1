// Host threads that do one piece of work side by side with the thread that brings it.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace simt {

class WorkerPool {
 public:
  explicit WorkerPool(int helpers);
  ~WorkerPool();
  // Calls work() on the calling thread and on every helper; returns when all calls have returned. Not reentrant.
  void run(const std::function<void()>& work);

 private:
  void serve();
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void()>* work_ = nullptr;
  uint64_t generation_ = 0;
  int busy_ = 0;
  bool stop_ = false;
};

}  // namespace simt
