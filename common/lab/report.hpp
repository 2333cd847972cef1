// What the lab knows of a step after its rungs have run, and the forms it is told in: a table, source lines with
// counts in the margin, a page, JSON. A time or a speed of the executor is in none of them.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/lab/cards.hpp"
#include "common/simt/counts.hpp"

namespace lab {

// A rung after its one counted run.
struct Rung {
  std::string name, check, note;     // check: "ok  (3% of tol)"
  std::string skip;                  // not empty: did not run, and why
  double flop = 0, least_bytes = 0;  // the rung's own figures: arithmetic; every input read and output written once
  double barriers_per_block = 0;     // block-wide, over all kernels of the rung
  std::vector<simt::KernelCounts> kernels;  // empty where nothing is counted: a loop on the host
};

// The rungs of one shape.
struct Table {
  std::string title, shape;  // "Step 03 · bank-conflict padding", "192×160×136 · fp32"
  std::vector<Rung> rungs;
};

// The requests of one kind, summed over lines: loads or stores of one memory.
struct Requests {
  uint64_t requests = 0, lanes = 0, sectors = 0, l1_lines = 0, wavefronts = 0, least_wavefronts = 0, bytes = 0;
};
Requests sum(const std::vector<simt::KernelCounts>& kernels, simt::Space space, bool load);

// Bytes that the global requests move in sectors of 32: the traffic if no cache kept anything.
double sector_bytes(const std::vector<simt::KernelCounts>& kernels);

// Does the line take more than its width needs: wavefronts beyond the least, or more sectors than lanes that are
// neighbours on an aligned address (4 a request of 4-byte lanes)?
bool costs_extra(const simt::LineCounts& line);

// The rungs with their arithmetic and bounds, and below, where there are counts, what their requests took.
std::string table_text(const Table& table, const Card& card);

// For each line that makes requests, what one takes: "32.00 wavefronts per request at line 41: 4-byte loads …"
std::string told(const std::vector<simt::KernelCounts>& kernels);

// {"requests", "barriers_per_block", "global": {"load", "store"}, "shared": {…}, "kernels": […]}; every key is told in
// tools/compare_counters.py.
nlohmann::json counts_json(const Rung& rung);

}  // namespace lab
