// A card that works: variables, rights and modes that change how programs behave on it.
#include <fmt/format.h>

#include "env_check/diagnosis.hpp"

namespace env_check {
namespace {

void check_jit_cache(Diagnosis& d) {  // case 38
  for (const char* name : {"CUDA_CACHE_DISABLE", "CUDA_FORCE_PTX_JIT"})
    if (d.env_is(name, "1"))
      d.note("jit_cache_off", "PTX is compiled anew at every start of a program, which can take minutes.",
             {d.env_text(name)}, {fmt::format("unset {}", name)});
  if (d.f.system.jit_cache_writable == false)
    d.note("jit_cache_off", "PTX is compiled anew at every start of a program, which can take minutes.",
           {"the cache of compiled PTX cannot be written (CUDA_CACHE_PATH, else ~/.nv/ComputeCache)"},
           {"export CUDA_CACHE_PATH=/a/folder/that/stays CUDA_CACHE_MAXSIZE=1073741824"});
}

void check_counters(Diagnosis& d) {  // case 84
  const Counters counters = counters_of(d.f);
  if (counters.readable != false) return;
  d.note("profiler_counters",
         "ncu may not read the performance counters (ERR_NVGPUCTRPERM). Programs are not affected.", counters.how,
         counters.fix);
}

}  // namespace

Counters counters_of(const Facts& f) {
  Counters c;
  if (f.system.wsl) {
    c.how = {"on WSL Windows decides"};
    c.fix = {
        "# Windows: NVIDIA Control Panel, Desktop, Enable Developer Settings; then Developer, Manage GPU Performance",
        "# Counters: allow access to all users; then in PowerShell: wsl --shutdown"};
    return c;
  }
  if (!f.module.profiling_admin_only) return c;
  c.readable = !*f.module.profiling_admin_only || f.system.sys_admin;
  c.how = {fmt::format("RmProfilingAdminOnly is {}", *f.module.profiling_admin_only ? 1 : 0),
           f.system.sys_admin ? "this process has CAP_SYS_ADMIN" : "this process has no CAP_SYS_ADMIN"};
  if (f.system.container.empty())
    c.fix = {
        "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiler.conf",
        "sudo update-initramfs -u || sudo dracut --force", "sudo reboot", "# or only once: sudo ncu …"};
  else
    c.fix = {"docker run --gpus all --cap-add=SYS_ADMIN …   # or the host's module option, see a bare machine",
             "# a rented machine: ask the provider"};
  return c;
}

void check_settings(Diagnosis& d) {
  const Facts& f = d.f;
  if (!d.works) return;
  if (f.driver.jit_library == false && !f.system.wsl && !f.system.tegra)  // case 48
    d.warning("ptxjit_missing",
              "The driver's PTX compiler is missing: programs without machine code for this card fail with error 221.",
              {"dlopen: " + f.driver.jit_error}, d.install_driver(""));
  if (f.system.mps_control && !f.system.mps_daemon && d.native)  // case 34
    d.warning(
        "mps_unreachable", "An MPS pipe is left over, but no daemon listens: programs may wait for it.",
        {d.env_text("CUDA_MPS_PIPE_DIRECTORY"), "the pipe exists, no process nvidia-cuda-mps-control"},
        {"nvidia-cuda-mps-control -d", "# or without MPS:", "unset CUDA_MPS_PIPE_DIRECTORY; rm -rf /tmp/nvidia-mps"});
  check_jit_cache(d);
  if (f.nvml.state == "answered" && f.nvml.init_result.value_or(0) != 0 && f.nvml.init_result != 18)
    d.warning("nvml_failed", "CUDA works, but NVML, and so nvidia-smi, does not.",
              {fmt::format("nvmlInit returned {}", *f.nvml.init_result)},
              {"nvidia-smi", "sudo dmesg | grep -iE 'nvrm|xid' | tail -20"});
  check_counters(d);
  check_log(d);
  if (d.env_is("CUDA_LAUNCH_BLOCKING", "1"))
    d.note("launch_blocking",
           "Every kernel launch waits for its kernel: right for debugging, slow, and no measurement.",
           {d.env_text("CUDA_LAUNCH_BLOCKING")}, {"unset CUDA_LAUNCH_BLOCKING"});
  bool persistence = f.nvml.devices.empty();
  for (const NvmlDevice& n : f.nvml.devices) persistence = persistence || n.persistence != 0;
  if (f.driver.init_ms.value_or(0) > 2000 && !persistence && d.native)
    d.note("slow_start",
           "Every first use of the card takes seconds: without persistence mode the driver starts it anew.",
           {fmt::format("cuInit took {} ms", *f.driver.init_ms), "persistence mode is off"},
           {"sudo systemctl enable --now nvidia-persistenced   # or: sudo nvidia-smi -pm 1"});
}

}  // namespace env_check
