#include <algorithm>
#include <cstring>

#include "07_positional_encoding/angle_errors.hpp"
#include "07_positional_encoding/rope_step.cuh"
#include "07_positional_encoding/sinusoidal_step.cuh"

int main(int argc, char** argv) {
  const int status = run_steps({sinusoidal_table_step(), rope_rotation_step()}, argc, argv);
  const bool ran = std::none_of(argv + 1, argv + argc, [](const char* a) {
    return !std::strcmp(a, "--list") || !std::strcmp(a, "--help") || !std::strcmp(a, "-h");
  });
  if (status == kOk && ran) print_angle_errors();
  return status;
}
