// The device code inside a program: NVIDIA's fatbin. The layout is not documented: it was found by comparing files that
// nvcc 13.0 made for many targets, and agrees with cuobjdump on them; files of 11.x and 12.x are expected to look the
// same, but were not tried.
#pragma once
#include "env_check/facts.hpp"
#include "env_check/file_window.hpp"

namespace env_check {

constexpr uint32_t kFatbinMagic = 0xBA55ED50;

// Adds the entries of the fatbins that lie one after the other in `window` to out.code; out.error says what was wrong.
void read_fatbins(const Window& window, Binary& out);

void add_code(DeviceCode code, Binary& out);  // counts an entry that is already there

}  // namespace env_check
