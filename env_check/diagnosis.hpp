// What the parts of diagnose() share: the facts, the findings so far, and the few questions all of them ask.
#pragma once
#include <string>
#include <vector>

#include "env_check/compatibility.hpp"
#include "env_check/diagnose.hpp"

namespace env_check {

using Lines = std::vector<std::string>;

struct Diagnosis {
  explicit Diagnosis(const Facts& facts);

  const Facts& f;
  std::vector<Finding> found;

  // Derived once.
  bool asked;   // libcuda was asked at all
  bool works;   // cuInit succeeded and there is at least one card
  int code;     // the first error code of libcuda; 0 if there was none (or nothing was asked)
  bool native;  // neither WSL nor a container
  bool nvml_works;
  std::vector<PciDevice> gpus;  // of f.pci without the NVSwitches
  Version driver;               // its CUDA version

  void add(Severity severity, const std::string& id, const std::string& what, Lines how, Lines fix);
  void error(const std::string& id, const std::string& what, Lines how, Lines fix) {
    add(Severity::kError, id, what, std::move(how), std::move(fix));
  }
  void warning(const std::string& id, const std::string& what, Lines how, Lines fix) {
    add(Severity::kWarning, id, what, std::move(how), std::move(fix));
  }
  void note(const std::string& id, const std::string& what, Lines how, Lines fix) {
    add(Severity::kNote, id, what, std::move(how), std::move(fix));
  }
  bool has(const std::string& id) const;
  bool any_error() const;

  const DeviceNode* node(const std::string& path) const;
  bool card_node() const;  // /dev/nvidia0 or another number
  // Of the nodes that every program needs; those of MIG slices (/dev/nvidia-caps) are closed by right.
  bool any_node_error(const std::string& error) const;
  std::string nodes_with(const std::string& error) const;  // "/dev/nvidia0, /dev/nvidiactl"; "" without any
  std::string env_text(const std::string& name) const;     // "CUDA_HOME=/usr" or "CUDA_HOME is not set"
  bool env_is(const std::string& name, const std::string& value) const;

  bool is_distribution(const Lines& names) const;
  Lines install_driver(const std::string& at_least) const;
  Lines install_toolkit(const Version& release) const;
  Lines install(const std::string& apt, const std::string& dnf) const;
};

std::string code_text(int code);                   // "100 (cudaErrorNoDevice: no CUDA-capable device is detected)"
std::string toolkit_text(const Toolkit& toolkit);  // "/usr/bin/nvcc is 12.0.140 (from PATH)"
std::string join(const Lines& parts, const std::string& separator = ", ");
Lines list_items(const std::string& text, char separator);  // "0, 1" → {"0", "1"}

// Whether ncu may read the card's counters, how that is known, and how to allow it on this kind of machine.
struct Counters {
  std::optional<bool> readable;
  Lines how, fix;
};
Counters counters_of(const Facts& facts);

// The newest line of the kernel's log that holds `part`; "" without one.
std::string log_line(const Facts& facts, const std::string& part);

// The parts, in the order of the lesson's checks.
void check_driver(Diagnosis& d);  // does libcuda load, answer and find a card; if not, which part of the driver fails
void check_not_loaded(Diagnosis& d);         // … it could not be loaded
void check_versions(Diagnosis& d);           // … libraries and kernel module of different versions
void check_wsl(Diagnosis& d);                // … Windows' side
void check_hardware(Diagnosis& d);           // … card, kernel module, device files: when no card is found
void check_left_out(Diagnosis& d);           // … when only some of the cards are found
void check_container_devices(Diagnosis& d);  // … in a container, when no card is found
void check_log(Diagnosis& d);                // … what the kernel's log says
void check_memory(Diagnosis& d, const std::string& said);  // … error 2: which memory is full
void check_cards(Diagnosis& d);        // modes, MIG, memory errors, order, cards that are partly hidden
void check_settings(Diagnosis& d);     // variables and rights that change how a working card behaves
void check_unexplained(Diagnosis& d);  // no card and no cause found so far
void check_containers(Diagnosis& d);   // Docker and CDI on the host, what an image demands
void check_toolkit(Diagnosis& d);      // nvcc against driver and cards, CUDA_HOME
void check_variables(Diagnosis& d);    // CUDA_HOME, CUDAARCHS, /usr/local/cuda
void check_compiler(Diagnosis& d, const Toolkit& toolkit);  // the host compiler and C library
void check_libraries(Diagnosis& d);                         // LD_LIBRARY_PATH, stubs, mixed sets
void check_programs(Diagnosis& d);                          // files given with --binary
void check_python(Diagnosis& d);                            // PyTorch
void check_reported_error(Diagnosis& d);

}  // namespace env_check
