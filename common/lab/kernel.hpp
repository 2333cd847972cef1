// What a reader's own kernel file is given. The file defines `void run(Lab& lab)`, which allocates, launches, and says
// what should have come out: example.cuh.
#pragma once
#include <string>

#include "common/launch.hpp"
#include "common/random.hpp"
#include "common/verify.hpp"

class Lab {
 public:
  Lab(Stream& stream, int size, uint64_t input_seed) : n(size), stream_(stream), seed_(input_seed) {}

  const int n;             // --shape N on the command line, 1024 at first
  double flop = 0;         // arithmetic of all launches, if run() says so; for FLOP per byte and the bounds
  double least_bytes = 0;  // inputs and outputs, each moved once; for the bounds

  // The last argument of launch() in front of the kernel's own; .smem(bytes) adds dynamic shared memory.
  LaunchConfig how() { return on(stream_); }

  // Device memory with seeded values in [-1, 1), others on each call.
  DeviceBuffer<float> random(size_t count) { return DeviceBuffer<float>(random_uniform(count, seed_++)); }

  // Checks got[i] against want(i), to within `tolerance`.
  template <class T, class Want>
  void expect(const DeviceBuffer<T>& got, Want want, double tolerance = 1e-5) {
    expected_ = true;
    if (!launches_run()) return;
    std::vector<double> wanted(got.size());
    for (size_t i = 0; i < got.size(); ++i) wanted[i] = want(i);
    const Check check = compare(got.to_host(), wanted, tolerance, got.size());
    if (!check_.ok) return;  // the first failure is told
    check_ = check;
  }

  bool expected() const { return expected_; }
  const Check& check() const { return check_; }

 private:
  bool launches_run() const { return stream_.recording == nullptr; }

  Stream& stream_;
  uint64_t seed_;
  bool expected_ = false;
  Check check_ = [] {
    Check none;
    none.ok = true;
    return none;
  }();
};
