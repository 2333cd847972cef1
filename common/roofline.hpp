// The two ceilings of a card: arithmetic, computed from its attributes, and memory, measured by moving bytes.
#pragma once
#include <string>

#include "common/device.hpp"

// A card by its data sheet: what the executor's predictions are made for.
struct Card {
  const char* name;
  double fp32_flops;        // FLOP/s without tensor cores
  double bytes_per_second;  // device memory
};
// Cards the predictions can name; the first is the default. Vendor data sheets.
constexpr Card kCards[] = {
    {"NVIDIA H200", 66.9e12, 4.8e12},      {"NVIDIA A100-80G", 19.5e12, 2.04e12},
    {"NVIDIA RTX 3060", 12.7e12, 0.36e12}, {"NVIDIA RTX 4060 Ti", 22.1e12, 0.288e12},
    {"NVIDIA T4", 8.1e12, 0.32e12},
};

// Seconds the work takes at least on `card`, and which of the two ceilings says so.
struct Bound {
  double seconds;
  bool memory;
};
inline Bound roofline(const Card& card, double flop, double bytes) {
  const double compute = flop / card.fp32_flops, memory = bytes / card.bytes_per_second;
  return {compute > memory ? compute : memory, memory >= compute};
}

// Peak fp32 FLOP/s outside the tensor cores: multiprocessors × FMA lanes × 2 × clock. 0 where it is not known.
double peak_fp32_flops(const DeviceInfo& device);
// Peak dense bfloat16 tensor-core FLOP/s with float sums. 0 where it is not known.
double peak_bf16_flops(const DeviceInfo& device);

// Bytes per second of a copy (read + written) and of a read alone, measured once per process on buffers several times
// the L2. 0 on the executor, where a speed would say nothing.
double measured_copy_bandwidth();
double measured_read_bandwidth();
