// The CUDA Toolkit's own conversions on the host, compiled apart so that its types and ours do not meet.
#pragma once
#include <cstdint>

uint16_t toolkit_float_to_bfloat16(float f);
uint16_t toolkit_float_to_half(float f);
float toolkit_half_to_float(uint16_t h);
