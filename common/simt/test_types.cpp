// bfloat16 and half of the executor against what the formats say, for every value, and against the toolkit's headers
// where those exist (common/simt/toolkit_types.cpp).
#include "common/catch.hpp"
#include "common/device.hpp"
#include "common/simt/toolkit_types.hpp"

namespace {
// Bit patterns that reach every rounding case: all exponents, and fractions around the ties.
template <class F>
void for_many_floats(F f) {
  for (uint32_t sign = 0; sign < 2; ++sign)
    for (uint32_t exponent = 0; exponent < 256; ++exponent)
      for (uint32_t top = 0; top < 1024; top += 3)
        for (uint32_t tail : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu, 0x7fu})
          f(simt::bits_float(sign << 31 | exponent << 23 | (top << 13 | tail)));
}
}  // namespace

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
TEST_CASE("conversions agree with the CUDA Toolkit's headers") {
  if (!toolkit_types_available()) {
    WARN("skipped: no CUDA Toolkit here");
    return;
  }
  size_t differences = 0;
  for_many_floats([&](float f) {
    differences += __float2bfloat16(f).bits != toolkit_float_to_bfloat16(f);
    differences += __float2half(f).bits != toolkit_float_to_half(f);
  });
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float ours = __half2float(__half{uint16_t(bits)}), theirs = toolkit_half_to_float(uint16_t(bits));
    differences += !(ours == theirs || (std::isnan(ours) && std::isnan(theirs)));
  }
  CHECK(differences == 0);
}
