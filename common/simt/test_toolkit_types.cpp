// bfloat16 and half of the executor against the toolkit's headers: built only where those are installed.
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

TEST_CASE("conversions agree with the CUDA Toolkit's headers") {
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
