// What is known of a rung after it has run, and the two forms it takes: a line of the table, a row of a results file.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/bench.hpp"
#include "common/lab/report.hpp"
#include "common/step.hpp"

struct Row {
  const Rung* rung;
  Check check;
  Timing timing;
  double flop, bytes;
  double barriers_per_block = 0;
  std::vector<simt::KernelCounts> kernels = {};
  double gflops() const { return timing.seconds > 0 ? flop / timing.seconds * 1e-9 : 0; }
  double gbps() const { return timing.seconds > 0 ? bytes / timing.seconds * 1e-9 : 0; }
};

// Runs the rung once on poisoned outputs, checks it, and times it if it was right. samples = 0: check only.
Row run_rung(const Problem& problem, const Rung& rung, int samples, Stream& stream);

// What bounds the step on this device: FLOP/s, or bytes/s where it is memory-bound.
double ceiling(const Step& step, const Problem& problem);

// The table of a GPU's run; `peak` as ceiling() says, or 0 where nothing is timed.
void print_timed(const Step& step, const std::vector<Row>& rows, double peak);

nlohmann::json row_json(const Step& step, const Problem& problem, const Row& row, const std::vector<Row>& rows,
                        double peak);

// For the tables of the executor.
lab::Rung lab_rung(const Row& row);
