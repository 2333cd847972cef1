#include "common/simt/toolkit_types.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

uint16_t toolkit_float_to_bfloat16(float f) { return __nv_bfloat16_raw(__float2bfloat16(f)).x; }
uint16_t toolkit_float_to_half(float f) { return __half_raw(__float2half(f)).x; }
float toolkit_half_to_float(uint16_t h) {
  __half_raw raw;
  raw.x = h;
  return __half2float(__half(raw));
}
