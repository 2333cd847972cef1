// What a program without any rights can see of a machine's CUDA installation, as plain data: gather() fills it,
// diagnose() reads it, and JSON carries it to a machine where somebody can think. A value that could not be read stays
// "unknown" (an empty optional or string), which is never the same as "no": diagnose() draws no conclusion from it.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace env_check {

struct System {
  std::string kernel;                      // uname -r
  std::string machine;                     // uname -m
  std::string distribution;                // "ubuntu 24.04", from os-release
  bool wsl = false;                        // the kernel calls itself Microsoft's
  std::string container;                   // "" on the host itself, else docker, podman, kubernetes, lxc, apptainer …
  std::string sandbox;                     // snap, flatpak, or ""
  std::string service;                     // slurm, batch, systemd: started by one of these; "" by a person
  std::string l4t;                         // Jetson: "36.4.0", the release that JetPack is built on
  std::string prime;                       // laptop with two GPUs: on-demand, nvidia, intel; "off": switched off
  bool virtual_machine = false;            // a hypervisor is below
  std::optional<int> overcommit;           // vm.overcommit_memory
  std::optional<bool> jit_cache_writable;  // the driver may keep compiled PTX
  bool tegra = false;                      // a Jetson: its GPU is no PCI device
  bool root = false;                       // effective user id 0
  bool sudo = false;                       // started by sudo (the name itself is not kept)
  bool sys_admin = false;                  // CAP_SYS_ADMIN is effective
  std::optional<bool> secure_boot;         // from the EFI variable
  std::string glibc;                       // "2.36"
  std::vector<std::string> hwcaps;         // glibc-hwcaps of this processor, best first: x86-64-v3, x86-64-v2
  std::optional<int> pci_functions;        // listed on the bus, of any vendor; unknown when it cannot be listed
  int suspends = 0;                        // successful suspends since boot
  std::optional<int64_t> address_limit;    // RLIMIT_AS in kB; unknown when unlimited
  std::string firmware_path;               // firmware_class.path= of the kernel command line
  bool firmware_path_missing = false;      // that folder does not exist
  std::string cmake;                       // version of the cmake on PATH
  bool fabric_manager = false;             // a process nv-fabricmanager is visible
  std::string fabric_manager_version;      // of its Debian package
  bool mps_daemon = false;                 // a process nvidia-cuda-mps-control is visible
  bool mps_control = false;                // the control pipe exists in the MPS pipe folder
};

// The kernel's side of the driver.
struct Module {
  bool loaded = false;                       // /sys/module/nvidia or /proc/driver/nvidia/version exists
  std::string version;                       // of the loaded module
  std::optional<bool> open;                  // open kernel modules, as /proc/driver/nvidia/version says
  bool uvm = false;                          // nvidia_uvm is loaded
  bool nouveau = false;                      // nouveau is loaded
  bool on_disk = false;                      // nvidia.ko exists for the running kernel
  std::vector<std::string> on_disk_other;    // other kernels that have one
  bool dkms_source = false;                  // /usr/src/nvidia-* is there
  std::string dkms_log;                      // log of a build by dkms
  std::string blacklisted_in;                // the file that forbids loading nvidia
  std::optional<bool> gsp_firmware;          // the firmware of this module's version is in /lib/firmware
  std::optional<bool> kernel_headers;        // /lib/modules/<kernel>/build exists
  std::optional<bool> profiling_admin_only;  // RmProfilingAdminOnly of /proc/driver/nvidia/params
  std::vector<std::string> packages;         // installed Debian packages of the driver's user side
};

struct PciDevice {
  std::string bdf;                      // 0000:01:00.0
  int device_id = 0;                    // vendor is 10de
  int class_id = 0;                     // 0x0300.. and 0x0302.. are GPUs, 0x0680.. NVSwitches
  std::string driver;                   // who owns it: nvidia, nouveau, vfio-pci, "" nobody
  bool config_dead = false;             // its configuration space reads all ones
  std::optional<bool> bar1_unassigned;  // the window onto its memory has no address
  bool in_proc = false;                 // /proc/driver/nvidia/gpus/<bdf> exists
};

struct DeviceNode {
  std::string path;
  int mode = 0;
  std::optional<int> major;           // of the node
  std::optional<int> expected_major;  // what /proc/devices says it should be
  std::string error;                  // "" when it opened (or may be opened), else EACCES, EPERM, ENXIO …
};

// A file a loader may pick, in the order in which it would be found.
struct Library {
  std::string name;     // libcudart.so.12
  std::string path;     // where it was found
  std::string real;     // the file behind the symbolic links
  std::string version;  // what follows .so. in the real name: 12.4.127
  std::string where;    // LD_LIBRARY_PATH, cache (ld.so.cache), default (the loader's own folders), or unsearched
  int64_t size = 0;
  int elf_bits = 0;     // 64, 32, 0 = no ELF file
  std::string machine;  // x86_64, aarch64, …
};

struct Toolkit {
  std::string root;                // folder above bin/nvcc, links resolved
  std::string nvcc;                // as found
  std::string version;             // 13.0.88; "" when nvcc did not answer
  std::string error;               // why it did not
  std::string machine;             // of the file itself: x86_64, aarch64; "" for a script
  std::string ptxas;               // version of bin/ptxas beside it
  std::string from;                // CUDACXX, PATH, CUDA_HOME, CUDA_PATH, CONDA_PREFIX or a folder
  std::optional<bool> headers;     // cuda_runtime.h is where this nvcc looks
  std::optional<bool> runtime;     // so is libcudart
  std::vector<std::string> archs;  // nvcc --list-gpu-code: 75, 80, …
  std::optional<int> gcc_max;      // newest gcc its crt/host_config.h admits
  // Whether its crt/math_functions.h declares these two as newer C libraries do.
  std::optional<bool> cospi_guarded, rsqrt_guarded;
};

struct Compiler {
  std::string path;
  std::string kind;     // gcc or clang
  std::string version;  // 12.2.0
  std::string from;     // NVCC_CCBIN, CUDAHOSTCXX, NVCC_PREPEND_FLAGS, PATH
};

struct CudaDevice {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  std::string uuid, pci;
  std::optional<int> compute_mode;  // 0 default, 2 prohibited, 3 exclusive process
  std::optional<int> managed_memory;
};

// What libcuda said, asked in a process of its own.
struct DriverProbe {
  std::string state;                           // "" not asked, answered, not_loaded, timeout, crashed
  std::string last_step;                       // what it was doing when it stopped answering
  std::string error;                           // dlopen's message
  std::string path;                            // the file that was loaded, links resolved
  std::optional<int> version_result, version;  // cuDriverGetVersion: 13000 = 13.0
  std::optional<int> init_result, init_ms;     // cuInit, and how long it took
  std::optional<int> count_result, count;
  std::optional<int> context_result;  // a context on the first device
  std::optional<int> unmasked_count;  // count without CUDA_VISIBLE_DEVICES, asked only when the first count failed
  std::optional<bool> jit_library;    // libnvidia-ptxjitcompiler.so.1 can be loaded
  std::string jit_error;
  std::vector<CudaDevice> devices;
  std::vector<std::string> log;  // the driver's own explanation of a failure (CUDA_LOG_FILE)
};

struct NvmlDevice {
  std::string name, uuid, pci;
  std::optional<int> compute_mode;  // NVML's numbering: 0 default, 2 prohibited, 3 exclusive process
  std::optional<int> processes;     // compute processes on it
  std::optional<int> mig_current, mig_pending, mig_devices;
  std::optional<int> remap_pending, remap_failure;
  std::optional<int> memory_mib, memory_free_mib;
  std::optional<int> ecc_uncorrected;  // since the driver was loaded
  std::optional<int> persistence;      // 1: the driver keeps the card ready
  std::optional<int> fabric_state;     // NVLink fabric: 0 none, 1 not started, 2 in progress, 3 completed
  std::optional<int> virtualization;   // 0 none, 1 passthrough, 2 vGPU
};

// What libnvidia-ml said: the library behind nvidia-smi.
struct NvmlProbe {
  std::string state, last_step, error, path;
  std::optional<int> init_result;
  std::string driver_version;
  std::optional<int> cuda_version;
  std::vector<NvmlDevice> devices;
};

struct Wsl {
  bool dxg = false;                    // /dev/dxg
  std::vector<std::string> libraries;  // names in /usr/lib/wsl/lib that are CUDA's or NVML's
  bool loader_conf = false;            // /etc/ld.so.conf.d names /usr/lib/wsl/lib
};

struct Containers {
  std::string docker;                     // docker on PATH
  bool toolkit = false;                   // nvidia-ctk or the runtime hook is on PATH
  std::optional<bool> daemon_nvidia;      // /etc/docker/daemon.json names nvidia
  std::vector<std::string> cdi_versions;  // driver versions named in /etc/cdi and /var/run/cdi
};

// One kind of device code in a file.
struct DeviceCode {
  std::string kind;                  // cubin, ptx, or lto: intermediate code that a link makes into cubins
  int arch = 0;                      // 75, 80, 90, 120
  std::string suffix;                // "", "a" (this card only), "f" (this family)
  int isa_major = 0, isa_minor = 0;  // PTX: the ISA version of the text
  int count = 0;                     // how many such entries
};

struct NeededLibrary {
  std::string name;     // libcudart.so.12
  std::string path;     // what the loader would take; "" when nothing
  std::string why;      // LD_PRELOAD, RPATH, LD_LIBRARY_PATH, RUNPATH, cache, default folder
  std::string by;       // the library that asks for it; "" the program itself
  std::string real;     // links resolved
  std::string instead;  // what the next rule of the search would have given, if that is another file
};

struct Binary {
  std::string path;
  std::string error;  // why it could not be read (in full)
  std::string kind;   // program (or shared library), object, archive, fatbin, cubin, ptx; "" unknown
  std::string machine;
  int elf_bits = 0;
  std::vector<DeviceCode> code;
  std::vector<NeededLibrary> needed;  // CUDA's libraries, also those that its own libraries ask for
};

struct Python {
  std::string path;     // python3 that was asked
  std::string torch;    // folder of the torch package; "" without one
  std::string version;  // 2.8.0+cu128
  std::string cuda;     // 12.8; "" in a CPU build
  std::string error;
  std::vector<DeviceCode> code;  // what its kernels are compiled for
};

struct Facts {
  System system;
  Module module;
  std::vector<PciDevice> pci;
  std::vector<DeviceNode> nodes;
  std::map<std::string, std::string> environment;  // the variables that matter, where set
  std::vector<Library> libraries;
  std::vector<Toolkit> toolkits;             // in the order in which a build would prefer them
  std::vector<std::string> homes_with_nvcc;  // CUDA_HOME, CUDA_PATH: those whose bin/nvcc exists
  std::string usr_local_cuda;                // "" unknown, missing, dangling, ok
  std::string path_nvcc;                     // the first nvcc on PATH
  std::string path_ptxas;                    // version of the first ptxas on PATH
  std::string nvidia_smi;                    // first nvidia-smi on PATH
  Compiler compiler;                         // the host compiler nvcc would use
  std::vector<Compiler> other_compilers;
  DriverProbe driver;
  NvmlProbe nvml;
  Wsl wsl;
  Containers containers;
  std::vector<Binary> binaries;
  Python python;
  std::vector<std::string> kernel_log;  // what it says about the card; empty where it may not be read
  std::optional<int> reported_error;    // a CUDA error code the user saw elsewhere (--error)

  const std::string* env(const std::string& name) const;  // nullptr when the variable is not set
};

nlohmann::json to_json(const Facts& facts);

// Reads what to_json wrote. Missing keys keep their defaults, unknown ones are ignored.
// Throws BadInput, one line that names `origin`, the key, what was expected and what was found.
Facts facts_from_json(const nlohmann::json& json, const std::string& origin);

// The same from a file: not readable, larger than 16 MiB or not JSON is BadInput too.
Facts load_facts(const std::string& path);

}  // namespace env_check
