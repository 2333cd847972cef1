// The two ceilings of a card: arithmetic, computed from its attributes, and memory, measured by moving bytes.
#pragma once
#include <string>

#include "common/device.hpp"

// Peak fp32 FLOP/s outside the tensor cores: multiprocessors × FMA lanes × 2 × clock. 0 where it is not known.
double peak_fp32_flops(const DeviceInfo& device);
// Peak dense bfloat16 tensor-core FLOP/s with float sums. 0 where it is not known.
double peak_bf16_flops(const DeviceInfo& device);

// Bytes per second of a copy (read + written) and of a read alone, measured once per process on buffers several times
// the L2. 0 on the executor, where a speed would say nothing.
double measured_copy_bandwidth();
double measured_read_bandwidth();
