// bfloat16 and half of the executor against what the formats say, for every value.
#include "common/catch.hpp"
#include "common/device.hpp"

TEST_CASE("bfloat16: every value survives the way to float and back") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float f = __bfloat162float(__nv_bfloat16{uint16_t(bits)});
    if (std::isnan(f)) continue;
    if (__float2bfloat16(f).bits != bits) FAIL("0x" << std::hex << bits);
  }
  SUCCEED();
}
TEST_CASE("half: every value survives the way to float and back") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float f = __half2float(__half{uint16_t(bits)});
    if (std::isnan(f)) continue;
    if (__float2half(f).bits != bits) FAIL("0x" << std::hex << bits);
  }
  SUCCEED();
}
TEST_CASE("rounding goes to the nearest, and to even from the middle") {
  CHECK(__float2bfloat16(simt::bits_float(0x3f808000)).bits == 0x3f80);
  CHECK(__float2bfloat16(simt::bits_float(0x3f818000)).bits == 0x3f82);
  CHECK(__float2bfloat16(simt::bits_float(0x3f808001)).bits == 0x3f81);
  CHECK(__float2half(65519.9f).bits == 0x7bff);
  CHECK(__float2half(65520.f).bits == 0x7c00);
  CHECK(__float2half(0x1p-25f).bits == 0);  // half of the smallest subnormal: to even
  CHECK(__float2half(0x1.8p-24f).bits == 2);
}
