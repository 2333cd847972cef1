// For the tests of the exercises: what a kernel asked of memory on the executor, said in words and given as counts.
#pragma once
#include <cstdio>
#include <functional>

#include "common/catch.hpp"
#include "common/lab/report.hpp"
#include "common/launch.hpp"
#include "common/random.hpp"
#include "common/verify.hpp"

// Every element of `got` is what it should be, to within `tolerance`.
template <class T>
void check_result(const DeviceBuffer<T>& got, const std::vector<double>& want, int columns, double tolerance = 0) {
  const Check check = compare(got.to_host(), want, tolerance, size_t(columns));
  INFO(check.text());
  CHECK(check.ok);
}

#if !ON_GPU
struct Seen {
  std::vector<simt::KernelCounts> kernels;
  lab::Requests loads(simt::Space space) const { return lab::sum(kernels, space, true); }
  lab::Requests stores(simt::Space space) const { return lab::sum(kernels, space, false); }
  double barriers_per_block() const { return double(kernels.at(0).barriers) / double(kernels.at(0).blocks); }
};

// Runs `work`, which launches at least one kernel, and says what each of its lines takes.
inline Seen seen_by_lab(const std::function<void(Stream&)>& work) {
  simt::take_counts();  // those of earlier launches
  Stream stream;
  work(stream);
  Seen seen{simt::take_counts()};
  std::fputs(lab::told(seen.kernels).c_str(), stdout);
  std::fflush(stdout);
  REQUIRE(!seen.kernels.empty());
  return seen;
}
#endif
