// Every form of the softmax, and log-sum-exp, against the plain one in double.
#include <algorithm>
#include <functional>

#include "05_online_softmax/log_sum_exp.cuh"
#include "05_online_softmax/softmax.cuh"
#include "05_online_softmax/softmax_reference.hpp"
#include "common/catch.hpp"
#include "common/random.hpp"
#include "common/thin_tests.hpp"
#include "common/verify.hpp"

namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

using Launcher = std::function<void(Stream&, const float*, float*, int64_t, int)>;

struct Form {
  const char* name;
  int most_rows, most_cols;
  Launcher run;
};

void split(Stream& stream, const float* x, float* y, int64_t rows, int cols) {
  static SplitScratch scratch;
  softmax_split(stream, x, y, rows, cols, scratch);
}
void window(Stream& stream, const float* x, float* y, int64_t rows, int cols) {
  static WindowScratch scratch;
  softmax_window(stream, x, y, rows, cols, scratch);
}

std::vector<Form> forms() {
  constexpr int any = 1 << 30;
  return {
      {"three passes", any, any, softmax_three_passes},
      {"two passes", any, any, softmax_two_passes},
      {"registers", any, kRegisterCols, softmax_registers},
      {"shared memory", any, any,
       [](Stream& s, const float* x, float* y, int64_t r, int c) { softmax_shared(s, x, y, r, c); }},
      {"shared memory of 20 KB", any, any,  // a part of a long row has to be read twice
       [](Stream& s, const float* x, float* y, int64_t r, int c) { softmax_shared(s, x, y, r, c, 20 * 1024); }},
      {"several blocks a row", kSplitRows, any, split},
      {"second read from the L2", any, any, window},
      {"softmax_rows", any, any,
       [](Stream& s, const float* x, float* y, int64_t r, int c) { softmax_rows(s, x, y, r, c); }},
  };
}

double spread_of(const std::vector<float>& x) {
  float low = kInf, high = -kInf;
  for (float v : x)
    if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  return high > low ? double(high) - low : 0;
}

Check against_reference(const std::vector<float>& got, const std::vector<float>& x, int64_t rows, int cols) {
  const std::vector<double> want = softmax_reference(x, rows, cols);
  const double relative = softmax_tolerance(cols, std::min(spread_of(x), 90.0));  // beyond e^-90 all is 0
  return compare(
      got, want, [&](size_t i) { return relative * want[i] + kSmallestProbability; }, size_t(cols));
}

void check(const Form& form, const std::vector<float>& x, int64_t rows, int cols) {
  DeviceBuffer<float> from(x), to(x.size());
  Stream stream;
  form.run(stream, from.data(), to.data(), rows, cols);
  stream.synchronize();
  const Check result = against_reference(to.to_host(), x, rows, cols);
  INFO(form.name << ", " << rows << " rows of " << cols << ": " << result.text());
  REQUIRE(result.ok);
}

std::vector<float> values(size_t count, uint64_t seed) {
  std::vector<float> x = random_normal_with_outliers(count, seed);
  for (float& v : x) v *= 3.f;
  return x;
}

// Wrong on purpose -----------------------------------------------------------------------------------------------------

__global__ void softmax_without_maximum(const float* x, float* y, unsigned cols) {
  const float* from = x + size_t(blockIdx.x) * cols;
  float sum = 0.f;
  for (unsigned c = threadIdx.x; c < cols; c += 256) sum += __expf(from[c]);
  sum = block_sum<256>(sum);
  for (unsigned c = threadIdx.x; c < cols; c += 256) y[size_t(blockIdx.x) * cols + c] = __expf(from[c]) / sum;
}

__global__ void sum_without_barrier(const float* x, float* sums) {
  __shared__ float of_warp[8];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float sum = warp_sum(x[blockIdx.x * 256 + threadIdx.x]);
  if (lane == 0) of_warp[warp] = sum;
  // here a barrier is missing: the first warp adds what the others have not written yet
  const float total = warp_sum(lane < 8 ? of_warp[lane] : 0.f);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void sums_of_256(const float* x, float* sums) {
  const float total = block_sum<256>(x[blockIdx.x * 256 + threadIdx.x]);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

}  // namespace

TEST_CASE("05 softmax: rows of every length, around each form's tile") {
  uint64_t seed = 1;
  for (const Form& form : forms()) {
    for (int cols : thinned<int>({1,    2,    3,    4,    5,    31,   32,   33,   127,  128,  129,  255,
                                  256,  257,  509,  512,  513,  1000, 1021, 1023, 1024, 1025, 1028, 2047,
                                  2048, 2049, 2052, 4093, 4095, 4096, 4097, 4100, 8191, 8192, 8196, 10007}))
      if (cols <= form.most_cols) check(form, values(3 * size_t(cols), ++seed), 3, cols);
  }
}
TEST_CASE("05 softmax: long rows") {
  uint64_t seed = 100;
  for (const Form& form : forms())
    for (int cols : thinned<int>({16384, 16388, 32767, 32768, 32772, 70001, 151936}))
      if (cols <= form.most_cols) check(form, values(size_t(cols), ++seed), 1, cols);
}
TEST_CASE("05 softmax: any number of rows") {
  uint64_t seed = 200;
  for (const Form& form : forms())
    for (int rows : thinned<int>({1, 2, 3, 4, 5, 63, 64, 131}))
      for (int cols : {7, 60, 1028})
        if (rows <= form.most_rows) check(form, values(size_t(rows) * cols, ++seed), rows, cols);
}
TEST_CASE("05 softmax: masked rows give zeros, rows with NaN or +inf give NaN, -inf gives 0") {
  for (const Form& form : forms())
    for (int cols : {1, 5, 64, 1024, 1100, 6000}) {
      const int rows = 9;
      std::vector<float> x = values(size_t(rows) * cols, 300 + uint64_t(cols));
      const auto row = [&](int r) { return x.begin() + r * cols; };
      std::fill(row(1), row(2), -kInf);             // all masked
      *row(2) = kNan;                               // a NaN first
      *(row(4) - 1) = kNan;                         // a NaN last
      *(row(4) + cols / 2) = kInf;                  // +inf
      std::fill(row(5), row(5) + cols / 2, -kInf);  // the first half masked: a thread's first values tell it nothing
      std::fill(row(6), row(7), kNan);              // nothing but NaN
      std::fill(row(7), row(8), -kInf);
      *(row(8) - 1) = kNan;  // masked, with a NaN
      *row(8) = kInf, *(row(9) - 1) = kInf;
      check(form, x, rows, cols);
    }
}
TEST_CASE("05 softmax: scores of any size, for only differences count") {
  for (const Form& form : forms())
    for (float offset : {-1e5f, -300.f, 300.f, 1e4f, 3e38f}) {
      std::vector<float> x = random_integers(5 * 900, 9);  // integers: adding the offset keeps the differences exact
      if (offset > 1e30f)
        for (float& v : x) v = v > 0 ? offset : -offset;
      else
        for (float& v : x) v += offset;
      check(form, x, 5, 900);
    }
}
TEST_CASE("05 softmax: one value takes all, and constant rows share alike") {
  for (const Form& form : forms()) {
    std::vector<float> x(2 * 1500, 2.5f);
    x[700] = 200.f;
    DeviceBuffer<float> from(x), to(x.size());
    Stream stream;
    form.run(stream, from.data(), to.data(), 2, 1500);
    const std::vector<float> y = to.to_host();
    INFO(form.name);
    CHECK(y[700] == 1.f);
    CHECK(y[699] < 1e-37f);
    CHECK(std::fabs(y[1500] - 1 / 1500.0) < 1e-9);
    CHECK(std::all_of(y.begin() + 1500, y.end(), [&](float v) { return v == y[1500]; }));
  }
}
TEST_CASE("05 softmax: in place") {
  for (const Form& form : forms())
    for (int cols : {37, 1024, 9000}) {
      const std::vector<float> x = values(4 * size_t(cols), 400 + uint64_t(cols));
      DeviceBuffer<float> buffer(x);
      Stream stream;
      form.run(stream, buffer.data(), buffer.data(), 4, cols);
      stream.synchronize();
      const Check result = against_reference(buffer.to_host(), x, 4, cols);
      INFO(form.name << ": " << result.text());
      CHECK(result.ok);
    }
}
TEST_CASE("05 softmax: a row that does not start at 16 bytes, and nothing written beside it") {
  for (const Form& form : forms())
    for (int cols : {8, 1200}) {
      const std::vector<float> x = values(2 * size_t(cols), 500 + uint64_t(cols));
      std::vector<float> padded(x.size() + 2, 7.f);
      std::copy(x.begin(), x.end(), padded.begin() + 1);
      DeviceBuffer<float> from(padded), to(std::vector<float>(x.size() + 2, 7.f));
      Stream stream;
      form.run(stream, from.data() + 1, to.data() + 1, 2, cols);
      const std::vector<float> y = to.to_host();
      const Check result = against_reference({y.begin() + 1, y.end() - 1}, x, 2, cols);
      INFO(form.name << ": " << result.text());
      CHECK(result.ok);
      CHECK(y.front() == 7.f);
      CHECK(y.back() == 7.f);
    }
}
TEST_CASE("05 softmax: the same bits in every run, and when a graph is replayed") {
  const std::vector<float> x = values(2 * 40000, 600);
  DeviceBuffer<float> from(x), to(x.size());
  SoftmaxScratch scratch;
  Stream stream;
  softmax_rows(stream, from.data(), to.data(), 2, 40000, &scratch);
  const std::vector<float> once = to.to_host();
  const Check result = against_reference(once, x, 2, 40000);
  INFO(result.text());
  CHECK(result.ok);
  to.poison();
  const Graph graph = Graph::capture(stream, [&] { softmax_rows(stream, from.data(), to.data(), 2, 40000, &scratch); });
  CHECK(graph.nodes() == 2);
  graph.replay(stream);
  graph.replay(stream);
  stream.synchronize();
  CHECK(to.to_host() == once);
}
TEST_CASE("05 softmax: chunks of several rows at work at once, in any order of blocks, with the same bits") {
  const int rows = 7;
  WindowScratch scratch(60);  // 3 launches of up to 3 rows
  for (int cols : {70001, 73000}) {
    const std::vector<float> x = values(size_t(rows) * cols, 650 + uint64_t(cols));
    DeviceBuffer<float> from(x), to(x.size());
    Stream stream;
    std::vector<float> first;
    for (int seed : {0, 1, 2}) {
#if !ON_GPU
      simt::set_block_order(uint64_t(seed));
#endif
      to.poison();
      softmax_window(stream, from.data(), to.data(), rows, cols, scratch);
      stream.synchronize();
      const std::vector<float> y = to.to_host();
      if (seed == 0) {
        const Check result = against_reference(y, x, rows, cols);
        INFO(cols << " columns: " << result.text());
        REQUIRE(result.ok);
        first = y;
      }
      CHECK(y == first);
    }
#if !ON_GPU
    simt::set_block_order(0);
#endif
    softmax_window(stream, from.data(), from.data(), rows, cols, scratch);
    stream.synchronize();
    CHECK(from.to_host() == first);  // in place
  }
}
TEST_CASE("05 softmax: the L2 window is taken for many rows that no block holds, and not before it pays") {
  const int kept = int((device().shared_bytes_per_block - kSharedReserve) / sizeof(float));
  CHECK_FALSE(window_pays(kRegisterCols));
  CHECK_FALSE(window_pays(kept + kept / 4));
  const int cols = kept + kept / 4 + 4, rows = kSplitRows + 1;
  const std::vector<float> x = values(size_t(rows) * cols, 660);
  DeviceBuffer<float> from(x), to(x.size());
  SoftmaxScratch scratch;
  Stream stream;
  softmax_rows(stream, from.data(), to.data(), rows, cols, &scratch);
  stream.synchronize();
  const Check result = against_reference(to.to_host(), x, rows, cols);
  INFO(result.text());
  CHECK(result.ok);
  CHECK((scratch.window.words.to_host()[0] != ~0ull) == window_pays(cols));  // no longer poison: tickets were drawn
  if (!device().gpu) CHECK(window_pays(cols));
}
TEST_CASE("05 softmax: shapes a form is not made for are refused in one line") {
  Stream stream;
  SplitScratch scratch;
  WindowScratch words;
  DeviceBuffer<float> x(1);
  CHECK_THROWS_AS(softmax_registers(stream, x.data(), x.data(), 1, kRegisterCols + 1), BadInput);
  CHECK_THROWS_AS(softmax_window(stream, x.data(), x.data(), 1, kWindowWords * kWindowChunk + 1, words), BadInput);
  CHECK_THROWS_AS(softmax_split(stream, x.data(), x.data(), kSplitRows + 1, 1, scratch), BadInput);
}
TEST_CASE("05 softmax: no rows, nothing done") {
  Stream stream;
  DeviceBuffer<float> x(std::vector<float>{3.f});
  for (const Form& form : forms()) form.run(stream, x.data(), x.data(), 0, 1);
  CHECK(x.to_host()[0] == 3.f);
}

#if ON_GPU  // 8.7 GB: more than a test on the CPU may take
TEST_CASE("05 softmax: the logits of 14 136 rows, where an index passes 2^31") {
  const int64_t rows = 14136;
  const int cols = 151936;
  if (free_device_bytes() < 10000000000u) {
    WARN("less than 10 GB of device memory are free: a smaller tensor stands in");
    check(forms().back(), values(20 * 4100, 700), 20, 4100);
    return;
  }
  DeviceBuffer<float> x(size_t(rows) * cols);  // NaN, but for the last row
  const std::vector<float> last = values(cols, 701);
  Stream stream;
  float* at = x.data() + (rows - 1) * cols;
  copy_bytes_to_device(stream, at, last.data(), cols * sizeof(float));
  softmax_rows(stream, x.data(), x.data(), rows, cols);
  std::vector<float> got(cols);
  copy_bytes_to_host(stream, got.data(), at, cols * sizeof(float));
  stream.synchronize();
  const Check result = against_reference(got, last, 1, cols);
  INFO(result.text());
  CHECK(result.ok);
}
#endif

TEST_CASE("05 log-sum-exp: every length, and the special rows") {
  Stream stream;
  for (int cols : thinned<int>({1, 2, 3, 31, 128, 1000, 4095, 4096, 4097, 5000, 40001})) {
    const int rows = 5;
    std::vector<float> x = values(size_t(rows) * cols, 800 + uint64_t(cols));
    const auto row = [&](int r) { return x.begin() + r * cols; };
    std::fill(row(1), row(2), -kInf);
    *(row(3) - 1) = kInf;
    *row(3) = kNan;
    std::vector<double> want(rows);
    for (int r = 0; r < rows; ++r) {
      double sum = 0, max = -kInf;
      for (auto v = row(r); v != row(r + 1); ++v) max = std::max(max, double(*v));
      for (auto v = row(r); v != row(r + 1); ++v) sum += std::exp(double(*v) - (std::isinf(max) ? 0 : max));
      want[r] = (std::isinf(max) ? 0 : max) + std::log(sum);
    }
    want[3] = kNan;
    DeviceBuffer<float> from(x), to(rows);
    log_sum_exp(stream, from.data(), to.data(), rows, cols);
    stream.synchronize();
    const Check result = compare(
        to.to_host(), want, [&](size_t i) { return softmax_tolerance(cols, 90) + 0x1p-22 * std::fabs(want[i]); }, 1);
    INFO(cols << " columns: " << result.text());
    CHECK(result.ok);
  }
}

TEST_CASE("05 the check catches a softmax that does not subtract the maximum") {
  std::vector<float> x = random_uniform(4 * 300, 11);
  Stream stream;
  const auto run = [&] {
    DeviceBuffer<float> from(x), to(x.size());
    launch(softmax_without_maximum, dim3(4), dim3(256), on(stream), from.data(), to.data(), 300u);
    stream.synchronize();
    return against_reference(to.to_host(), x, 4, 300);
  };
  CHECK(run().ok);  // right as long as the scores are small …
  x[2 * 300 + 5] = 100.f;
  const Check overflow = run();
  CHECK_FALSE(overflow.ok);  // … and exp(100) is more than a float holds
  CHECK(overflow.not_finite > 0);
}
TEST_CASE("05 the executor shows what a missing barrier does") {
  std::vector<float> x = random_integers(20 * 256, 12);
  std::vector<double> want(20, 0.0);
  for (size_t i = 0; i < x.size(); ++i) want[i / 256] += x[i];
  DeviceBuffer<float> from(x), sums(20);
  Stream stream;
  launch(sums_of_256, dim3(20), dim3(256), on(stream), from.data(), sums.data());
  stream.synchronize();
  CHECK(compare_exact(sums.to_host(), want, 1).ok);
  if (device().gpu) return;  // there the race may end well, which is the worst of it
  launch(sum_without_barrier, dim3(20), dim3(256), on(stream), from.data(), sums.data());
  CHECK_FALSE(compare_exact(sums.to_host(), want, 1).ok);
}
