#include "common/step.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/lab/listing.hpp"
#include "common/program.hpp"
#include "common/row.hpp"
#if !ON_GPU
#include "common/barrier_trial.hpp"
#include "common/simt/executor.hpp"
#endif

using nlohmann::json;

namespace {

struct Options {
  std::vector<std::string> shapes, rungs;
  bool list = false, check_only = false, without_barriers = false;
  int samples = 25;
  uint64_t seed = 1, order_seed = 0;
  std::string json_file;
  // of the executor's programs only
  std::string card = kDefaultCard, html_file;
  bool list_cards = false, lines = false;
};

// "Step 03 · bank-conflict padding"
std::string title_of(const Step& step) {
  return step.number.empty() ? step.title : fmt::format("Step {} · {}", step.number, step.title);
}

bool wanted(const Rung& rung, const Options& options) {
  if (options.rungs.empty()) return true;
  return std::any_of(options.rungs.begin(), options.rungs.end(),
                     [&](const std::string& part) { return rung.name.find(part) != std::string::npos; });
}

// What a run leaves for the files.
struct Output {
  json rows = json::array();
  std::vector<lab::Table> tables;  // the executor's
};

void print_counted(const Step& step, const Problem& problem, const std::vector<Row>& rows, const Options& options,
                   Output& output) {
  lab::Table table{title_of(step), problem.shape + " · " + problem.dtype, {}};
  for (const Row& row : rows) table.rungs.push_back(lab_rung(row));
  fmt::print("{}", lab::table_text(table, find_card(options.card)));
  if (options.lines) fmt::print("{}", lab::listing_text(table));
  output.tables.push_back(std::move(table));
}

#if !ON_GPU
// Every rung of every shape without each of its barriers.
bool try_barriers(const std::vector<Step>& parts, const std::vector<std::vector<Shape>>& shapes,
                  const Options& options) {
  if (!simt::counting()) throw BadInput("--without-barriers: only an instrumented program notices");
  BarrierTrial trial;
  for (size_t i = 0; i < parts.size(); ++i)
    for (const Shape& shape : shapes[i]) {
      const auto build = [&] { return parts[i].build(shape, options.seed); };
      for (const Rung& rung : build().rungs)
        if (wanted(rung, options) && rung.skip.empty()) trial.try_rung(build, rung.name);
    }
  return trial.report(parts[0].number + "_");
}
#endif

// Builds, runs and prints one shape; returns whether every rung that ran was right.
bool run_shape(const Step& step, const Shape& shape, const Options& options, Output& output) {
  // On the executor, inputs, the reference in double and the copies that are compared lie in the same memory.
  const double needed = (device().gpu ? 1 : 4) * step.device_bytes(shape);
  const double available = static_cast<double>(free_device_bytes());
  if (needed > 0.95 * available)
    throw EnvironmentError(fmt::format("--shape {}: needs {:.1f} GB of {} memory, {:.1f} GB are free", shape.text(),
                                       needed * 1e-9, device().gpu ? "device" : "the host's", available * 1e-9));
  const Problem problem = step.build(shape, options.seed);
  if (std::none_of(problem.rungs.begin(), problem.rungs.end(), [&](const Rung& r) { return wanted(r, options); }))
    return true;  // another part of the step may have the rung
  Stream stream;
  std::vector<Row> rows;
  fmt::print(" shape {} · {}\n", problem.shape, problem.dtype);
  for (const Rung& rung : problem.rungs) {
    if (!wanted(rung, options)) continue;
    if (rung.skip.empty())
      rows.push_back(run_rung(problem, rung, options.check_only ? 0 : options.samples, stream));
    else
      rows.push_back({&rung, {}, {}, problem.flop, problem.bytes});
  }
  const double peak = device().gpu && !options.check_only ? ceiling(step, problem) : 0;
  if (device().gpu)
    print_timed(step, rows, peak);
  else
    print_counted(step, problem, rows, options, output);
  if (peak > 0)
    fmt::print(" ceiling: {:.0f} {}\n", peak * 1e-9,
               step.memory_bound ? "GB/s, a copy measured in this run (read + written)"
                                 : "GFLOPS, computed from multiprocessors × lanes × clock");
  bool ok = true;
  for (const Row& row : rows) {
    output.rows.push_back(row_json(step, problem, row, rows, peak));
    if (row.rung->skip.empty()) ok = ok && row.check.ok;
  }
  return ok;
}

void list_rungs(const Step& step, const Options& options) {
  const Problem problem = step.build(step.small_shapes.at(0), options.seed);
  for (const Rung& rung : problem.rungs)
    fmt::print("{}{}\n", rung.name,
               rung.role == Rung::kBaseline ? "  (baseline)"
               : rung.role == Rung::kPeer   ? "  (peer)"
                                            : "");
}

long dimensions(const std::string& form) { return 1 + std::count(form.begin(), form.end(), 'x'); }

// The shapes of each part: what the user named, sorted by the number of dimensions, else the part's own.
std::vector<std::vector<Shape>> shapes_of(const std::vector<Step>& parts, const Options& options) {
  std::vector<std::vector<Shape>> shapes(parts.size());
  for (const std::string& text : options.shapes) {
    size_t fits = 0;
    while (fits < parts.size() && dimensions(parts[fits].form) != dimensions(text)) ++fits;
    if (fits == parts.size()) fits = 0;  // none: the first one's form is named in the message
    const Shape shape = parse_shape(text, parts[fits].form);
    for (size_t i = fits; i < parts.size(); ++i)
      if (dimensions(parts[i].form) == dimensions(text)) shapes[i].push_back(shape);
  }
  if (options.shapes.empty())
    for (size_t i = 0; i < parts.size(); ++i) shapes[i] = ON_GPU ? parts[i].shapes : parts[i].small_shapes;
  return shapes;
}

// Throws BadInput where `path` cannot be written; leaves no file behind that was not there.
void check_writable(const char* option, const std::string& path) {
  if (path.empty()) return;
  const bool existed = std::ifstream(path).good();
  if (!std::ofstream(path, std::ios::app)) throw BadInput(fmt::format("{} {}: cannot be written", option, path));
  if (!existed) std::remove(path.c_str());
}

void write_file(const char* option, const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path);
  if (!(file << text << "\n").flush()) throw BadInput(fmt::format("{} {}: cannot be written", option, path));
}

int run_command(const std::vector<Step>& parts, const Options& options, const std::string& command) {
  const auto shapes = shapes_of(parts, options);
  check_writable("--json", options.json_file);
  check_writable("--html", options.html_file);
  if (const std::string reason = why_no_device(); !reason.empty()) {
    fmt::print(stderr, "{}. `make lab{}` runs the same kernels on the CPU; `make env_check` says what is wrong.\n",
               reason, parts[0].number);
    return kNothingRan;
  }
#if !ON_GPU
  simt::set_block_order(options.order_seed);
  if (options.without_barriers) return try_barriers(parts, shapes, options) ? kOk : kCheckFailed;
#else
  if (options.without_barriers)
    throw BadInput("--without-barriers: a GPU does not notice; the programs lab01 to lab08 do");
#endif
  find_card(options.card);  // before any work
  if (options.list_cards) {
    fmt::print("{}", cards_text());
    return kOk;
  }
  if (options.list) {
    for (const Step& step : parts) list_rungs(step, options);
    return kOk;
  }
  bool ok = true;
  Output output;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (shapes[i].empty()) continue;
    fmt::print("{:<42} {}\n", title_of(parts[i]), machine_text());
    for (const Shape& shape : shapes[i]) ok = run_shape(parts[i], shape, options, output) && ok;
  }
  if (output.rows.empty())
    throw BadInput(fmt::format("--rung: no rung of step {} matches; --list names them", parts[0].number));
  const json results{{"machine", json::parse(machine_json())}, {"command", command}, {"rows", output.rows}};
  // a file's name in the command may be any bytes
  write_file("--json", options.json_file, results.dump(1, ' ', false, json::error_handler_t::replace));
  if (!options.html_file.empty())
    write_file("--html", options.html_file, lab::listing_html(output.tables, find_card(options.card)));
  return ok ? kOk : kCheckFailed;
}

}  // namespace

int run_step(const Step& step, int argc, char** argv) { return run_steps({step}, argc, argv); }

int run_steps(const std::vector<Step>& parts, int argc, char** argv) {
  Options options;
  CLI::App app{fmt::format("Step {}: {}", parts[0].number, parts[0].title)};
  std::string forms = parts[0].form;
  for (const Step& step : parts)
    if (forms.find(step.form) == std::string::npos) forms += " or " + step.form;
  app.add_option("--shape", options.shapes, fmt::format("problem size {}; may be repeated", forms));
  app.add_option("--rung", options.rungs, "only rungs whose name contains this; may be repeated");
  app.add_flag("--list", options.list, "name the rungs and stop");
  app.add_option("--samples", options.samples, "timed samples a rung")->check(CLI::Range(1, 100000));
  app.add_flag("--check-only", options.check_only, "check every rung, time none");
  app.add_option("--seed", options.seed, "seed of the inputs");
  app.add_option("--order-seed", options.order_seed, "executor: shuffle the order of blocks by this seed");
  app.add_flag("--without-barriers", options.without_barriers,
               "executor: run each rung once without each of its barriers, and see whether that is caught");
  app.add_option("--json", options.json_file, "also write the rows to this file");
#if !ON_GPU
  app.add_option("--card", options.card, "the card that bounds are predicted for");
  app.add_flag("--list-cards", options.list_cards, "name the cards there are and stop");
  app.add_flag("--lines", options.lines, "the kernels' source lines with their counts");
  app.add_option("--html", options.html_file, "write table and source lines as one page to this file");
#endif
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kBadInput;
  }
  std::string command;
  for (int i = 0; i < argc; ++i) command += (i ? " " : "") + std::string(i ? argv[i] : "step" + parts[0].number);
  return run_main([&] { return run_command(parts, options, command); });
}
