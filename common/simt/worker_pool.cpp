#include "common/simt/worker_pool.hpp"

namespace simt {

WorkerPool::WorkerPool(int helpers) {
  for (int i = 0; i < helpers; ++i) threads_.emplace_back([this] { serve(); });
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void WorkerPool::run(const std::function<void()>& work) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    work_ = &work;
    ++generation_;
    busy_ = static_cast<int>(threads_.size());
  }
  wake_.notify_all();
  work();
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void WorkerPool::serve() {
  uint64_t seen = 0;
  for (;;) {
    const std::function<void()>* work;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      work = work_;
    }
    (*work)();
    std::lock_guard<std::mutex> lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace simt
