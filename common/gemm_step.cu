#include "common/gemm_step.hpp"

#include <fmt/format.h>

#include "common/random.hpp"

namespace {

struct Buffers {
  DeviceBuffer<float> A, B, C;
  std::vector<double> want, tolerance;
};

Problem build(const Shape& shape, uint64_t seed) {
  const int M = shape[0], N = shape[1], K = shape[2];
  auto buffers = std::make_shared<Buffers>();
  buffers->A = DeviceBuffer<float>(random_uniform(size_t(M) * K, seed));
  buffers->B = DeviceBuffer<float>(random_uniform(size_t(K) * N, seed + 1));
  buffers->C = DeviceBuffer<float>(size_t(M) * N);
  const Gemm gemm{buffers->A.data(), buffers->B.data(), buffers->C.data(), M, N, K};
  {
    DeviceBuffer<double> want(size_t(M) * N), magnitude(size_t(M) * N);
    Stream stream;
    gemm_reference(stream, gemm, want.data(), magnitude.data());
    stream.synchronize();
    buffers->want = want.to_host();
    buffers->tolerance = magnitude.to_host();
    for (double& t : buffers->tolerance) t = dot_tolerance(t, K);
  }
  Problem problem;
  problem.shape = shape.text();
  problem.flop = gemm.flop();
  problem.bytes = gemm.least_bytes();
  problem.poison = [buffers] { buffers->C.poison(); };
  problem.buffers = buffers;
  return problem;
}

}  // namespace

Rung GemmStep::make_rung(const Problem& problem, const Shape& shape, const Entry& entry) {
  auto buffers = std::static_pointer_cast<Buffers>(problem.buffers);
  const Gemm gemm{buffers->A.data(), buffers->B.data(), buffers->C.data(), shape[0], shape[1], shape[2]};
  Rung rung;
  rung.name = entry.name;
  rung.role = entry.role;
  rung.run = [launcher = entry.launcher, gemm](Stream& stream, int) { launcher(stream, gemm); };
  rung.check = [buffers, columns = size_t(shape[1])] {
    const std::vector<double>& tolerance = buffers->tolerance;
    return compare(
        buffers->C.to_host(), buffers->want, [&](size_t i) { return tolerance[i]; }, columns);
  };
  if (entry.note) rung.note = entry.note(gemm);
  rung.on_host = entry.most_host_flop > 0;
  if (rung.on_host && gemm.flop() > entry.most_host_flop)
    rung.skip = fmt::format("a loop on the host would take too long: {:.0f} MFLOP, most {:.0f}", gemm.flop() * 1e-6,
                            entry.most_host_flop * 1e-6);
  return rung;
}

GemmStep::GemmStep(std::string number, std::string title) : number_(std::move(number)), title_(std::move(title)) {}

GemmStep& GemmStep::add(Entry entry) {
  entries_.push_back(std::move(entry));
  return *this;
}

GemmStep& GemmStep::shapes(std::vector<Shape> gpu, std::vector<Shape> executor) {
  gpu_shapes_ = std::move(gpu);
  small_shapes_ = std::move(executor);
  return *this;
}

GemmStep::operator Step() const {
  Step step;
  step.number = number_;
  step.title = title_;
  step.shapes = gpu_shapes_;
  step.small_shapes = small_shapes_;
  step.device_bytes = [](const Shape& s) {
    const double M = s[0], N = s[1], K = s[2];
    return 4 * (M * K + K * N + M * N) + 16 * M * N;  // inputs and output, and the reference with its tolerance
  };
  step.build = [entries = entries_](const Shape& shape, uint64_t seed) {
    Problem problem = build(shape, seed);
    for (const Entry& e : entries) problem.rungs.push_back(make_rung(problem, shape, e));
    if (cublas_gemm())
      problem.rungs.push_back(make_rung(problem, shape, {"cuBLAS SGEMM", cublas_gemm(), Rung::kPeer, nullptr, 0}));
    return problem;
  };
  return step;
}
