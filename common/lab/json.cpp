#include <nlohmann/json.hpp>

#include "common/lab/listing.hpp"

namespace lab {
namespace {

using nlohmann::json;
using simt::Space;

json requests_json(const std::vector<simt::KernelCounts>& kernels, Space space, bool load) {
  const Requests r = sum(kernels, space, load);
  json j{{"requests", r.requests}, {"bytes", r.bytes}};
  if (space == Space::global)
    j["sectors"] = r.sectors, j["l1_lines"] = r.l1_lines;
  else
    j["wavefronts"] = r.wavefronts, j["least_wavefronts"] = r.least_wavefronts;
  return j;
}

json totals_json(const std::vector<simt::KernelCounts>& kernels) {
  json j;
  for (const auto& [space, name] : {std::pair(Space::global, "global"), std::pair(Space::shared, "shared")})
    j[name] = {{"load", requests_json(kernels, space, true)}, {"store", requests_json(kernels, space, false)}};
  return j;
}

// The part of the stores to shared memory that asynchronous copies make.
json async_json(const simt::KernelCounts& kernel) {
  uint64_t requests = 0, wavefronts = 0;
  for (const simt::LineCounts& line : kernel.lines)
    if (line.async) requests += line.requests, wavefronts += line.wavefronts;
  return {{"requests", requests}, {"wavefronts", wavefronts}};
}

json line_json(const simt::LineCounts& line) {
  json j{{"file", shown_path(line.file)},         {"line", line.line},         {"load", line.load},
         {"bytes_per_lane", line.bytes_per_lane}, {"requests", line.requests}, {"lanes", line.lanes}};
  if (line.space == Space::global)
    j["space"] = "global", j["sectors"] = line.sectors, j["l1_lines"] = line.l1_lines;
  else
    j["space"] = "shared", j["wavefronts"] = line.wavefronts, j["least_wavefronts"] = line.least_wavefronts;
  if (line.async) j["async"] = true;
  return j;
}

}  // namespace

json counts_json(const Rung& rung) {
  json j = totals_json(rung.kernels);
  j["barriers_per_block"] = rung.barriers_per_block;
  j["kernels"] = json::array();
  for (const simt::KernelCounts& kernel : rung.kernels) {
    json k = totals_json({kernel});
    k["shared"]["async"] = async_json(kernel);
    k["kernel"] = kernel.kernel;
    k["launches"] = kernel.launches;
    k["blocks"] = kernel.blocks;
    k["threads"] = kernel.threads;
    k["barriers"] = kernel.barriers;
    if (kernel.flops > 0) k["flops"] = kernel.flops;
    k["lines"] = json::array();
    for (const simt::LineCounts& line : kernel.lines) k["lines"].push_back(line_json(line));
    k["barrier_lines"] = json::array();
    for (const simt::BarrierCounts& barrier : kernel.barrier_lines)
      k["barrier_lines"].push_back({{"file", shown_path(barrier.file)},
                                    {"line", barrier.line},
                                    {"of_warp", barrier.of_warp},
                                    {"count", barrier.count}});
    j["kernels"].push_back(k);
  }
  return j;
}

}  // namespace lab
