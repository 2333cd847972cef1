// What Hopper does beside a block's threads: mbarriers, bulk tensor copies, named barriers, and the wgmma of a warpgroup.
//
// As with cp.async, a copy or a wgmma happens as late as it may, when it is waited for, or, where set_early_copies asks
// for it, at once; a wait that is missing shows in one of the two.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "common/simt/executor.hpp"
#include "common/simt/tensor_map.hpp"
#include "common/simt/warpgroup.hpp"

namespace simt {

class BlockRunner;

// The block's asynchronous units. Addresses are bytes of its dynamic shared memory.
class Hopper {
 public:
  explicit Hopper(BlockRunner& runner) : runner_(runner) {}
  void block_begins(int threads, size_t shared_bytes);
  void thread_ends(int thread);
  std::string block_ends();     // what is still under way, or nothing
  std::string waiting() const;  // who waits for what, for the report of a deadlock

  void init(uint32_t barrier, int arrivals, Site site);
  void init_fence() { unfenced_init_ = false; }
  void arrive(uint32_t barrier, int64_t expected_bytes, Site site);
  void wait(uint32_t barrier, unsigned parity, Site site);

  void load(const TensorMap& map, const int (&at)[4], uint32_t to, uint32_t barrier, Site site);
  void store(const TensorMap& map, const int (&at)[4], uint32_t from, Site site);
  void commit_stores();
  void wait_stores(int groups_left, bool of_reading);

  void named_barrier(int id, int threads, bool waits, Site site);

  Warpgroup& warpgroup(Site site);
  void check_first_coordinate(const TensorMap& map, int at, Site site) const;
  uint32_t shared_address(const void* pointer, uint32_t alignment, const char* what, Site site) const;

 private:
  // The 64 bits of an mbarrier, which the PTX ISA leaves open.
  struct Mbarrier {
    uint64_t phase : 1;      // parity of the phase that is under way
    uint64_t expected : 20;  // arrivals of every phase
    uint64_t pending : 20;   // arrivals that this phase still wants
    int64_t bytes : 23;      // bytes that copies still have to bring
  };
  static_assert(sizeof(Mbarrier) == 8, "an mbarrier has 64 bits");
  struct Load {
    TensorMap map;
    int at[4];
    uint32_t to, barrier;
    Site site;
    int thread;
  };
  // A store reads shared memory and later writes global memory; in between it holds what it read.
  struct Store {
    TensorMap map;
    int at[4];
    uint32_t from;
    Site site;
    std::vector<char> held;
  };
  struct ThreadStores {
    std::vector<Store> stores;
    std::vector<size_t> group_ends;
  };
  struct Waiter {
    uint32_t barrier;
    unsigned parity;
    int thread;
    Site site;
  };
  struct NamedBarrier {
    int expected = 0, arrived = 0;
    std::vector<int> sleepers;
    Site site{"", 0};
  };

  Mbarrier state_of(uint32_t barrier) const;
  Mbarrier checked(uint32_t barrier, Site site) const;  // fails where it has not been initialised
  void advance(uint32_t barrier, int arrivals, int64_t bytes, Site site);
  void wake_waiters(uint32_t barrier);
  void land(uint32_t barrier);
  void read_source(Store& store);
  std::string described(Site site, const char* reason, int thread) const;

  BlockRunner& runner_;
  std::vector<Load> loads_;
  std::vector<ThreadStores> stores_;  // by thread
  std::vector<Waiter> waiters_;
  std::vector<NamedBarrier> named_ = std::vector<NamedBarrier>(16);
  std::vector<std::unique_ptr<Warpgroup>> warpgroups_;
  bool unfenced_init_ = false;
  int threads_ = 0;
  size_t shared_bytes_ = 0;
};

// The functions of common/ptx_sm90.hpp, for the current thread -----------------------------------------------------------

void mbarrier_init(uint64_t* barrier, int arrivals, Site site);
void mbarrier_init_fence();
void mbarrier_arrive(uint64_t* barrier, int64_t expected_bytes, Site site);
void mbarrier_wait(uint64_t* barrier, unsigned parity, Site site);
void bulk_load(void* shared, const TensorMap& map, const int (&at)[4], uint64_t* barrier, Site site);
void bulk_store(const TensorMap& map, const int (&at)[4], const void* shared, Site site);
void bulk_commit();
void bulk_wait(int groups_left, bool of_reading);
void named_barrier(int id, int threads, bool waits, Site site);
uint32_t shared_address(const void* pointer, Site site);
void wgmma(const WgmmaOperands& operands, Site site);
void wgmma_fence(Site site);
void wgmma_commit(Site site);
void wgmma_wait(int groups_left, Site site);

}  // namespace simt
