// The cos/sin table of RoPE and the rotation.
#include <algorithm>

#include "07_positional_encoding/rope.cuh"
#include "common/catch.hpp"
#include "common/random.hpp"
#include "common/verify.hpp"

namespace {

constexpr double kTheta = 1e6;

std::vector<float2> make_table(int positions, int rotary, double theta, RopeAngles angles) {
  DeviceBuffer<float2> table(size_t(positions) * (rotary / 2));
  Stream stream;
  rope_table(stream, table.data(), positions, rotary, theta, angles);
  stream.synchronize();
  return table.to_host();
}

// The largest error of one row against float64.
double table_error(const std::vector<float2>& table, int position, int rotary, double theta, RopeAngles angles) {
  double worst = 0;
  for (int i = 0; i < rotary / 2; ++i) {
    const float2 got = table[size_t(position) * (rotary / 2) + i];
    const float as_float = float(position) * rope_inverse_frequency(i, rotary, theta);
    const double angle = angles == RopeAngles::kExact ? position * std::pow(theta, -2.0 * i / rotary) : as_float;
    const double error = std::max(std::fabs(got.x - std::cos(angle)), std::fabs(got.y - std::sin(angle)));
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

float number(float v) { return v; }
float number(bfloat16 v) { return __bfloat162float(v); }
void set(float& to, float v) { to = v; }
void set(bfloat16& to, float v) { to = __float2bfloat16(v); }

// A layout of queries and keys in one buffer, as the projection leaves them.
struct Layout {
  int tokens, q_heads, k_heads, head_dim, rotary;
  int gap = 0;     // elements between the heads of one token and those of the next
  int offset = 0;  // elements before the first token
  int64_t stride() const { return int64_t(q_heads + k_heads) * head_dim + gap; }
  size_t size() const { return size_t(offset) + size_t(tokens) * stride(); }
};

// Rotates with `run(x at its offset, table, positions)` and compares all of the buffer with float64, so that a value
// outside the rotated dimensions that has changed is a fault as well.
template <class T, class Run>
Check check_rotation(const Layout& l, const std::vector<int>& positions, RopePairing pairing, Run run) {
  const std::vector<float> values = random_normal_with_outliers(l.size(), 3);
  std::vector<T> x(l.size());
  for (size_t i = 0; i < x.size(); ++i) set(x[i], values[i]);
  std::vector<double> want(x.size());
  std::transform(x.begin(), x.end(), want.begin(), [](T v) { return double(number(v)); });
  const int half = l.rotary / 2;
  for (int t = 0; t < l.tokens; ++t)
    for (int h = 0; h < l.q_heads + l.k_heads; ++h)
      for (int i = 0; i < half; ++i) {
        const size_t head = size_t(l.offset) + size_t(t) * l.stride() + size_t(h) * l.head_dim;
        const size_t a = pairing == RopePairing::kInterleaved ? head + 2 * i : head + i;
        const size_t b = pairing == RopePairing::kInterleaved ? a + 1 : a + half;
        const float angle = float(positions[t]) * rope_inverse_frequency(i, l.rotary, kTheta);
        const double c = std::cos(double(angle)), s = std::sin(double(angle)), u = want[a], v = want[b];
        want[a] = u * c - v * s;
        want[b] = v * c + u * s;
      }
  DeviceBuffer<T> buffer(x);
  const int rows = *std::max_element(positions.begin(), positions.end()) + 1;
  DeviceBuffer<float2> table(size_t(rows) * half);
  DeviceBuffer<int> on_device(positions);
  Stream stream;
  rope_table(stream, table.data(), rows, l.rotary, kTheta);
  run(stream, buffer.data() + l.offset, table.data(), on_device.data());
  stream.synchronize();
  const double ulp = std::is_same_v<T, float> ? 4 * kFloatUlp : 1.01 * kBfloat16Ulp;
  return compare(
      buffer.to_host(), want, [&](size_t i) { return ulp * std::fabs(want[i]) + 1e-5; }, size_t(l.head_dim));
}

template <class T>
void check_both_pairings(const Layout& l, const std::vector<int>& positions) {
  for (RopePairing pairing : {RopePairing::kHalfSplit, RopePairing::kInterleaved}) {
    const Check apart = check_rotation<T>(l, positions, pairing, [&](Stream& s, T* x, float2* table, int* at) {
      rope_apply(s, x, table, at, l.tokens, l.q_heads, l.head_dim, l.rotary, l.stride(), pairing);
      if (l.k_heads)
        rope_apply(s, x + l.q_heads * l.head_dim, table, at, l.tokens, l.k_heads, l.head_dim, l.rotary, l.stride(),
                   pairing);
    });
    const Check fused = check_rotation<T>(l, positions, pairing, [&](Stream& s, T* x, float2* table, int* at) {
      const RopeHeads<T> heads{
          x, x + l.q_heads * l.head_dim, l.q_heads, l.k_heads, l.head_dim, l.rotary, l.stride(), l.stride()};
      rope_apply_qk(s, heads, table, at, l.tokens, pairing);
    });
    INFO(l.tokens << " tokens, " << l.q_heads << "+" << l.k_heads << " heads of " << l.head_dim << ", rotary "
                  << l.rotary << ", " << (pairing == RopePairing::kInterleaved ? "interleaved" : "half-split") << ": "
                  << apart.text() << "; " << fused.text());
    REQUIRE(apart.ok);
    REQUIRE(fused.ok);
  }
}

std::vector<int> positions_for(int tokens) {
  std::vector<int> positions(tokens);
  for (int t = 0; t < tokens; ++t) positions[t] = (t * 37 + 5) % 101;  // in no order, as in a batch
  return positions;
}

}  // namespace

TEST_CASE("07 rope table: both kinds of angles within 1e-6 of float64 of the same angle, up to position 40 959") {
  for (RopeAngles angles : {RopeAngles::kFloat32, RopeAngles::kExact})
    for (double theta : {1e4, 1e6, 1e7}) {
      const int rotary = 32, positions = 40960;
      const std::vector<float2> table = make_table(positions, rotary, theta, angles);
      for (int position : {0, 1, 2, 1023, 1024, 4095, 4096, 15962, 40959}) {
        const double error = table_error(table, position, rotary, theta, angles);
        INFO("theta " << theta << ", position " << position << ": " << error);
        CHECK(error < 1e-6);
      }
    }
}
TEST_CASE("07 rope table: position 262 143") {
  for (RopeAngles angles : {RopeAngles::kFloat32, RopeAngles::kExact})
    CHECK(table_error(make_table(262144, 6, 1e7, angles), 262143, 6, 1e7, angles) < 1e-6);
}
TEST_CASE("07 rope table: every shape") {
  for (int positions : {1, 2, 7, 1025})
    for (int rotary : {2, 4, 6, 62, 64, 66, 128, 254, 256, 258, 300}) {
      const std::vector<float2> table = make_table(positions, rotary, 1e4, RopeAngles::kFloat32);
      for (int position : {0, positions / 2, positions - 1}) {
        INFO(positions << " positions, rotary " << rotary);
        REQUIRE(table_error(table, position, rotary, 1e4, RopeAngles::kFloat32) < 1e-6);
      }
    }
}
TEST_CASE("07 rope table: the two kinds part where an fp32 angle ends") {
  const int rotary = 128, position = 40959;
  const auto as_models_run = make_table(position + 1, rotary, kTheta, RopeAngles::kFloat32);
  const auto exact = make_table(position + 1, rotary, kTheta, RopeAngles::kExact);
  CHECK(table_error(exact, position, rotary, kTheta, RopeAngles::kExact) < 1e-4);
  const double rounded = table_error(as_models_run, position, rotary, kTheta, RopeAngles::kExact);
  INFO("fp32 angle against the true one: " << rounded);
  CHECK_FALSE(rounded < 1e-4);  // on purpose: published models are run with it
  CHECK(rounded < 1e-2);
}
TEST_CASE("07 rope: inverse frequencies as transformers rounds them") {
  CHECK(rope_inverse_frequency(0, 128, 1e6) == 1.f);
  CHECK(rope_inverse_frequency(32, 128, 1e6) == 1.f / 1000.f);  // theta^(1/2)
  CHECK(rope_inverse_frequency(1, 4, 1e4) == 1.f / 100.f);
  const float power = float(std::pow(1e6, double(2.f / 6.f)));  // 1/3 is rounded to float before the power
  CHECK(rope_inverse_frequency(1, 6, 1e6) == 1.f / power);
}
TEST_CASE("07 rope: every shape, apart and fused, half-split and interleaved, float and bfloat16") {
  for (int tokens : {1, 2, 13})
    for (const Layout& l :
         {Layout{0, 1, 0, 2, 2}, Layout{0, 1, 1, 6, 6}, Layout{0, 3, 1, 8, 8}, Layout{0, 8, 2, 64, 64},
          Layout{0, 14, 2, 64, 64}, Layout{0, 16, 8, 128, 128}, Layout{0, 5, 3, 34, 34}}) {
      Layout with = l;
      with.tokens = tokens;
      check_both_pairings<float>(with, positions_for(tokens));
      check_both_pairings<bfloat16>(with, positions_for(tokens));
    }
}
TEST_CASE("07 rope: partial rotary leaves the other dimensions alone") {
  for (const Layout& l : {Layout{3, 2, 1, 256, 64}, Layout{3, 2, 1, 10, 4}, Layout{3, 1, 0, 7, 6}}) {
    check_both_pairings<float>(l, positions_for(3));
    check_both_pairings<bfloat16>(l, positions_for(3));
  }
}
TEST_CASE("07 rope: strides and starts that rule vector accesses out, and what lies between stays") {
  for (int gap : {0, 1, 4, 12})
    for (int offset : {0, 1, 8}) {
      check_both_pairings<float>({4, 2, 1, 16, 16, gap, offset}, positions_for(4));
      check_both_pairings<bfloat16>({4, 2, 1, 16, 16, gap, offset}, positions_for(4));
    }
}
TEST_CASE("07 rope: queries and keys in two tensors, each with its own distance between tokens") {
  const int tokens = 3, d = 16, q_stride = 2 * d, k_stride = d + 4;
  const std::vector<float> q = random_uniform(tokens * q_stride, 21), k = random_uniform(tokens * k_stride, 22);
  DeviceBuffer<float> q_fused(q), k_fused(k), q_apart(q), k_apart(k);
  DeviceBuffer<float2> table(8 * d / 2);
  DeviceBuffer<int> positions(std::vector<int>{7, 2, 5});
  Stream stream;
  rope_table(stream, table.data(), 8, d, kTheta);
  const RopeHeads<float> heads{q_fused.data(), k_fused.data(), 2, 1, d, d, q_stride, k_stride};
  rope_apply_qk(stream, heads, table.data(), positions.data(), tokens, RopePairing::kHalfSplit);
  rope_apply(stream, q_apart.data(), table.data(), positions.data(), tokens, 2, d, d, q_stride,
             RopePairing::kHalfSplit);
  rope_apply(stream, k_apart.data(), table.data(), positions.data(), tokens, 1, d, d, k_stride,
             RopePairing::kHalfSplit);
  stream.synchronize();
  CHECK(compare_exact(q_fused.to_host(), q_apart.to_host(), size_t(d)).ok);
  CHECK(compare_exact(k_fused.to_host(), k_apart.to_host(), size_t(d)).ok);
  CHECK_FALSE(compare_exact(k_fused.to_host(), k, size_t(d)).ok);
}
TEST_CASE("07 rope: position 40 959 and neighbours") {
  check_both_pairings<float>({4, 2, 1, 128, 128}, {40959, 40958, 0, 40959});
  check_both_pairings<bfloat16>({4, 2, 1, 128, 128}, {40959, 40958, 0, 40959});
}
TEST_CASE("07 rope: only the distance of two positions matters") {
  // q at 100 and k at 93 have the same product as q at 7 and k at 0
  const int d = 64;
  const std::vector<float> values = random_uniform(2 * d, 8);
  const auto product = [&](int q_position, int k_position) {
    std::vector<float> two = values;
    DeviceBuffer<float> x(two);
    DeviceBuffer<float2> table(101 * d / 2);
    DeviceBuffer<int> positions(std::vector<int>{q_position, k_position});
    Stream stream;
    rope_table(stream, table.data(), 101, d, kTheta);
    rope_apply(stream, x.data(), table.data(), positions.data(), 2, 1, d, d, d, RopePairing::kHalfSplit);
    stream.synchronize();
    two = x.to_host();
    double sum = 0;
    for (int i = 0; i < d; ++i) sum += double(two[i]) * two[d + i];
    return sum;
  };
  CHECK(product(100, 93) == Approx(product(7, 0)).margin(1e-4));
  CHECK(product(100, 93) != Approx(product(8, 0)).margin(1e-4));
}
TEST_CASE("07 the check catches the other pairing") {
  const Layout l{3, 2, 0, 16, 16};
  const Check wrong =
      check_rotation<float>(l, {5, 6, 7}, RopePairing::kHalfSplit, [&](Stream& s, float* x, float2* table, int* at) {
        rope_apply(s, x, table, at, l.tokens, l.q_heads, l.head_dim, l.rotary, l.stride(), RopePairing::kInterleaved);
      });
  CHECK_FALSE(wrong.ok);
}
TEST_CASE("07 rope: rotary dimensions that cannot be paired are refused, with the numbers") {
  Stream stream;
  DeviceBuffer<float> x(16);
  DeviceBuffer<float2> table(16);
  DeviceBuffer<int> positions(std::vector<int>{0});
  for (int rotary : {0, 3, 18})
    CHECK_THROWS_AS(
        rope_apply(stream, x.data(), table.data(), positions.data(), 1, 1, 16, rotary, 16, RopePairing::kHalfSplit),
        BadInput);
  CHECK_THROWS_AS(rope_table(stream, table.data(), 1, 3, kTheta), BadInput);
  CHECK_THROWS_AS(rope_table(stream, table.data(), 1, 4, 0.0), BadInput);
}
