// What a block that broke a rule is stopped with.
#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>

#include "common/simt/block_runner.hpp"

namespace simt {

std::string kernel_name(const void* kernel) {
  Dl_info info;
  if (!dladdr(kernel, &info) || !info.dli_sname) return "kernel";
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), free);
  std::string name = status == 0 ? text.get() : info.dli_sname;
  if (name.rfind("void ", 0) == 0) name.erase(0, 5);
  int depth = 0;  // "kernel<(Kind)1>(float*)": the arguments begin outside of the template's
  for (size_t i = 0; i < name.size(); ++i) {
    depth += (name[i] == '<') - (name[i] == '>');
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

std::string BlockRunner::name(int thread) const {
  const uint3 t = threads_[thread].index;
  return fmt::format("thread ({},{},{})", t.x, t.y, t.z);
}

std::string BlockRunner::who(int thread) const {
  return fmt::format("{} block ({},{},{}) {}", kernel_name(work_->kernel), ::blockIdx.x, ::blockIdx.y, ::blockIdx.z,
                     name(thread));
}

std::string BlockRunner::describe(const std::string& location, const std::string& reason, int thread) const {
  return fmt::format("{}: {}: {}", location, who(thread), reason);
}

std::string BlockRunner::stack_overflow(uintptr_t address) const {
  if (running_ == &host_ || !running_->guards(address)) return "";
  return fmt::format("{}: stack of {} KiB exceeded: an array of that size belongs in shared or global memory\n",
                     who(current_), kStackBytes / 1024);
}

void BlockRunner::fail(const std::string& reason, Site site, int thread) {
  throw KernelError(describe(fmt::format("{}:{}", site.file, site.line), reason, thread));
}

std::string BlockRunner::deadlock_report() const {
  std::string text =
      fmt::format("deadlock in {} block ({},{},{}): {} of {} threads cannot go on", kernel_name(work_->kernel),
                  ::blockIdx.x, ::blockIdx.y, ::blockIdx.z, count_ - finished_, count_);
  if (arrived_ > 0)
    text += fmt::format("; {} wait at the barrier {}:{}, the first is {}", arrived_, barrier_site_.file,
                        barrier_site_.line, name(first_arrival_));
  for (size_t warp = 0; warp < meetings_.size(); ++warp)
    for (const WarpMeeting& m : meetings_[warp])
      text += fmt::format("; warp {}: lanes {:#010x} of mask {:#010x} wait at {}:{}", warp, m.arrived, m.mask,
                          m.site.file, m.site.line);
  return text + hopper_.waiting();
}

}  // namespace simt
