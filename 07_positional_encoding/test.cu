// The sinusoidal table in all its forms, and the angles behind it.
#include <algorithm>

#include "07_positional_encoding/angle_errors.hpp"
#include "07_positional_encoding/sinusoidal.cuh"
#include "common/catch.hpp"
#include "common/verify.hpp"

namespace {

struct Form {
  const char* name;
  double roundings;  // of relative size 2^-24 that the angle goes through
  void (*run)(Stream&, float*, int positions, int d);
};

const Form kForms[] = {
    {"pow", 20, [](Stream& s, float* table, int p, int d) { sinusoidal_pow(s, table, p, d); }},
    {"hoisted", 2.1,
     [](Stream& s, float* table, int p, int d) {
       sinusoidal_hoisted(s, table, SinusoidalFrequencies(d), p, d), s.synchronize();
     }},
    {"split", 0,
     [](Stream& s, float* table, int p, int d) {
       sinusoidal_split(s, table, SinusoidalFrequencies(d), p, d), s.synchronize();
     }},
    {"precomputed", 0,
     [](Stream& s, float* table, int p, int d) {
       DeviceBuffer<float> computed(size_t(p) * d);
       sinusoidal_split(s, computed.data(), SinusoidalFrequencies(d), p, d);
       sinusoidal_precomputed(s, table, computed.data(), p, d);
       s.synchronize();
     }},
};

double exact(int position, int column, int d) {
  const double angle = position * std::pow(10000.0, -2.0 * (column / 2) / d);
  return column % 2 ? std::cos(angle) : std::sin(angle);
}

// `offset` floats behind a 16-byte boundary.
Check check(const Form& form, int positions, int d, int offset = 0) {
  DeviceBuffer<float> table(size_t(positions) * d + size_t(offset));
  Stream stream;
  form.run(stream, table.data() + offset, positions, d);
  stream.synchronize();
  std::vector<float> got = table.to_host();
  got.erase(got.begin(), got.begin() + offset);
  std::vector<double> want, tolerance;
  for (int p = 0; p < positions; ++p)
    for (int c = 0; c < d; ++c) {
      want.push_back(exact(p, c, d));
      tolerance.push_back(form.roundings * kFloatUlp * p * std::pow(10000.0, -2.0 * (c / 2) / d) + 1.5e-6);
    }
  return compare(
      got, want, [&](size_t i) { return tolerance[i]; }, size_t(d));
}

// The largest error in the row of one position.
double error_at(const Form& form, int position, int d) {
  DeviceBuffer<float> table(size_t(position + 1) * d);
  Stream stream;
  form.run(stream, table.data(), position + 1, d);
  std::vector<float> row(d);
  copy_bytes_to_host(stream, row.data(), table.data() + int64_t(position) * d, size_t(d) * sizeof(float));
  stream.synchronize();
  double worst = 0;
  for (int c = 0; c < d; ++c) {
    const double error = std::fabs(double(row[c]) - exact(position, c, d));
    if (!(error <= worst)) worst = error;  // NaN stays
  }
  return worst;
}

}  // namespace

TEST_CASE("07 sinusoidal table: every shape, odd widths too") {
  for (const Form& form : kForms)
    for (int positions : {1, 2, 3, 17, 37})
      for (int d : {1, 2, 3, 4, 6, 7, 8, 31, 64, 127, 511, 512, 513, 514, 1028}) {
        const Check result = check(form, positions, d);
        INFO(form.name << ", " << positions << " positions, d = " << d << ": " << result.text());
        REQUIRE(result.ok);
      }
}
TEST_CASE("07 sinusoidal table: many positions, and a width of more than one block") {
  for (const Form& form : kForms) {
    CHECK(check(form, 5003, 8).ok);
    CHECK(check(form, 3, 4100).ok);
  }
}
TEST_CASE("07 sinusoidal table: need not start at 16 bytes") {
  for (const Form& form : kForms) CHECK(check(form, 9, 32, 1).ok);
}
TEST_CASE("07 sinusoidal table: the split form stays exact at positions 4 095, 40 959 and 262 143") {
  for (int position : {4095, 40959, 262143}) {
    const double error = error_at(kForms[2], position, 12);
    INFO("position " << position << ": " << error);
    CHECK(error < 2e-6);
  }
}
TEST_CASE("07 the limit of 1e-4 catches the fp32 angle at position 40 959") {
  for (const Form& form : {kForms[0], kForms[1]}) {
    const double near = error_at(form, 15, 64), far = error_at(form, 40959, 64);
    INFO(form.name << ": " << near << ", " << far);
    CHECK(near < 1e-4);
    CHECK_FALSE(far < 1e-4);
    CHECK(far < 2e-2);
  }
}
TEST_CASE("07 angles: the errors that the lesson states, at width 1024") {
  const auto stated = [](AngleFormat format, int position, double error) {
    INFO("position " << position);
    CHECK(std::fabs(worst_angle_error(format, position, 1024) / error - 1) < 0.05);
  };
  stated(AngleFormat::kFloat, 4095, 1.7e-4);
  stated(AngleFormat::kFloat, 40959, 2.2e-3);
  stated(AngleFormat::kFloat, 262143, 1.4e-2);
  for (int position : {4095, 40959, 262143}) stated(AngleFormat::kSplitFloat, position, 2.9e-7);
  stated(AngleFormat::kHalf, 255, 9.7e-2);
  stated(AngleFormat::kBfloat16, 255, 7.9e-1);
}
TEST_CASE("07 angles: each format's error at the edge of what it can do") {
  CHECK(worst_angle_error(AngleFormat::kHalf, 255, 128) > 0.01);
  CHECK(worst_angle_error(AngleFormat::kHalf, 4095, 128) > 0.5);
  CHECK(std::isnan(worst_angle_error(AngleFormat::kHalf, 262143, 128)));  // above 65 504: infinite
  CHECK(worst_angle_error(AngleFormat::kBfloat16, 255, 128) > 0.1);
  CHECK(worst_angle_error(AngleFormat::kFloat, 255, 128) < 1e-4);
  CHECK(worst_angle_error(AngleFormat::kFloat, 40959, 128) > 1e-4);
  for (int position : {0, 1, 255, 4095, 40959, 262143, 16777215})
    CHECK(worst_angle_error(AngleFormat::kSplitFloat, position, 128) < 1e-6);
}
