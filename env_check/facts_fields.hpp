// The fields of every struct of Facts by name, for both directions of JSON: `visit(name, member)` writes or reads. A new
// field is added here and in facts.hpp, nowhere else.
#pragma once
#include "env_check/facts.hpp"

namespace env_check {

template <class S, class V>
void fields_of(S& s, V&& visit, const System*) {
  visit("kernel", s.kernel), visit("machine", s.machine), visit("distribution", s.distribution);
  visit("wsl", s.wsl), visit("container", s.container), visit("sandbox", s.sandbox), visit("service", s.service);
  visit("l4t", s.l4t), visit("prime", s.prime), visit("virtual_machine", s.virtual_machine);
  visit("overcommit", s.overcommit), visit("jit_cache_writable", s.jit_cache_writable);
  visit("tegra", s.tegra), visit("root", s.root);
  visit("sudo", s.sudo), visit("sys_admin", s.sys_admin), visit("secure_boot", s.secure_boot);
  visit("glibc", s.glibc), visit("hwcaps", s.hwcaps), visit("pci_functions", s.pci_functions);
  visit("suspends", s.suspends), visit("address_limit", s.address_limit);
  visit("firmware_path", s.firmware_path), visit("firmware_path_missing", s.firmware_path_missing);
  visit("cmake", s.cmake), visit("fabric_manager", s.fabric_manager);
  visit("fabric_manager_version", s.fabric_manager_version);
  visit("mps_daemon", s.mps_daemon), visit("mps_control", s.mps_control);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Module*) {
  visit("loaded", s.loaded), visit("version", s.version), visit("open", s.open), visit("uvm", s.uvm);
  visit("nouveau", s.nouveau), visit("on_disk", s.on_disk), visit("on_disk_other", s.on_disk_other);
  visit("dkms_source", s.dkms_source), visit("dkms_log", s.dkms_log), visit("blacklisted_in", s.blacklisted_in);
  visit("gsp_firmware", s.gsp_firmware), visit("kernel_headers", s.kernel_headers);
  visit("profiling_admin_only", s.profiling_admin_only), visit("packages", s.packages);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const PciDevice*) {
  visit("bdf", s.bdf), visit("device_id", s.device_id), visit("class_id", s.class_id), visit("driver", s.driver);
  visit("config_dead", s.config_dead), visit("bar1_unassigned", s.bar1_unassigned), visit("in_proc", s.in_proc);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const DeviceNode*) {
  visit("path", s.path), visit("mode", s.mode), visit("major", s.major);
  visit("expected_major", s.expected_major), visit("error", s.error);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Library*) {
  visit("name", s.name), visit("path", s.path), visit("real", s.real), visit("version", s.version);
  visit("where", s.where), visit("size", s.size), visit("elf_bits", s.elf_bits), visit("machine", s.machine);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Toolkit*) {
  visit("root", s.root), visit("nvcc", s.nvcc), visit("version", s.version), visit("error", s.error);
  visit("ptxas", s.ptxas), visit("from", s.from), visit("headers", s.headers), visit("runtime", s.runtime),
      visit("archs", s.archs), visit("gcc_max", s.gcc_max);
  visit("machine", s.machine), visit("cospi_guarded", s.cospi_guarded), visit("rsqrt_guarded", s.rsqrt_guarded);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Compiler*) {
  visit("path", s.path), visit("kind", s.kind), visit("version", s.version), visit("from", s.from);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const CudaDevice*) {
  visit("name", s.name), visit("major", s.major), visit("minor", s.minor), visit("uuid", s.uuid);
  visit("pci", s.pci), visit("compute_mode", s.compute_mode), visit("managed_memory", s.managed_memory);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const DriverProbe*) {
  visit("state", s.state), visit("last_step", s.last_step), visit("error", s.error), visit("path", s.path);
  visit("version_result", s.version_result), visit("version", s.version), visit("init_result", s.init_result);
  visit("init_ms", s.init_ms), visit("count_result", s.count_result), visit("count", s.count),
      visit("context_result", s.context_result);
  visit("unmasked_count", s.unmasked_count), visit("jit_library", s.jit_library), visit("jit_error", s.jit_error);
  visit("devices", s.devices), visit("log", s.log);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const NvmlDevice*) {
  visit("name", s.name), visit("uuid", s.uuid), visit("pci", s.pci), visit("compute_mode", s.compute_mode);
  visit("processes", s.processes), visit("mig_current", s.mig_current), visit("mig_pending", s.mig_pending);
  visit("mig_devices", s.mig_devices), visit("remap_pending", s.remap_pending);
  visit("memory_mib", s.memory_mib), visit("memory_free_mib", s.memory_free_mib);
  visit("ecc_uncorrected", s.ecc_uncorrected), visit("persistence", s.persistence);
  visit("fabric_state", s.fabric_state), visit("remap_failure", s.remap_failure),
      visit("virtualization", s.virtualization);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const NvmlProbe*) {
  visit("state", s.state), visit("last_step", s.last_step), visit("error", s.error), visit("path", s.path);
  visit("init_result", s.init_result), visit("driver_version", s.driver_version);
  visit("cuda_version", s.cuda_version), visit("devices", s.devices);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Wsl*) {
  visit("dxg", s.dxg), visit("libraries", s.libraries), visit("loader_conf", s.loader_conf);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Containers*) {
  visit("docker", s.docker), visit("toolkit", s.toolkit), visit("daemon_nvidia", s.daemon_nvidia);
  visit("cdi_versions", s.cdi_versions);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const DeviceCode*) {
  visit("kind", s.kind), visit("arch", s.arch), visit("suffix", s.suffix), visit("isa_major", s.isa_major);
  visit("isa_minor", s.isa_minor), visit("count", s.count);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const NeededLibrary*) {
  visit("name", s.name), visit("path", s.path), visit("why", s.why), visit("by", s.by), visit("real", s.real);
  visit("instead", s.instead);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Binary*) {
  visit("path", s.path), visit("error", s.error), visit("kind", s.kind), visit("machine", s.machine);
  visit("elf_bits", s.elf_bits);
  visit("code", s.code), visit("needed", s.needed);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Python*) {
  visit("path", s.path), visit("torch", s.torch), visit("version", s.version), visit("cuda", s.cuda);
  visit("error", s.error), visit("code", s.code);
}
template <class S, class V>
void fields_of(S& s, V&& visit, const Facts*) {
  visit("system", s.system), visit("module", s.module), visit("pci", s.pci), visit("nodes", s.nodes);
  visit("environment", s.environment), visit("libraries", s.libraries), visit("toolkits", s.toolkits);
  visit("homes_with_nvcc", s.homes_with_nvcc);
  visit("usr_local_cuda", s.usr_local_cuda), visit("path_nvcc", s.path_nvcc), visit("path_ptxas", s.path_ptxas),
      visit("nvidia_smi", s.nvidia_smi);
  visit("compiler", s.compiler), visit("other_compilers", s.other_compilers), visit("driver", s.driver);
  visit("nvml", s.nvml), visit("wsl", s.wsl), visit("containers", s.containers), visit("binaries", s.binaries);
  visit("python", s.python), visit("kernel_log", s.kernel_log), visit("reported_error", s.reported_error);
}

}  // namespace env_check
