// PyTorch: has its build kernels for the cards here, and does the driver start them?
#include <fmt/format.h>

#include "env_check/diagnosis.hpp"
#include "env_check/files.hpp"

namespace env_check {
namespace {

void check_archs(Diagnosis& d, const std::string& torch) {
  const Python& p = d.f.python;
  if (p.code.empty()) return;
  for (const Card& card : cards_of(d.f)) {
    if (card.guessed) continue;
    const CodeFit fit = best_fit(p.code, card.arch, d.driver);
    const Lines how = {fmt::format("{} on {} (sm_{})", torch, card.name, card.arch),
                       "compiled for " + code_list(p.code)};
    if (fit.fit == Fit::kNoCode || fit.fit == Fit::kPtxTooNew) {  // cases 40, 41
      const Version first = first_nvcc_for(card.arch), last = last_nvcc_for(card.arch);
      const bool too_old = last.known() && Version(p.cuda).release() > last;
      d.warning(
          "torch_no_arch",
          "This PyTorch has no kernels for the card: \"no kernel image is available\" (error 209). is_available() says "
          "True all the same.",
          how,
          {too_old ? fmt::format("# a wheel built with CUDA {} or older still has this card (cu126, for example):",
                                 last.text())
                   : fmt::format("# a wheel built with CUDA {} or newer:", first.known() ? first.text() : "12.8"),
           fmt::format("pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/{}",
                       too_old ? "cu126" : "cu128"),
           "# extensions that you compile: export TORCH_CUDA_ARCH_LIST=\"" +
               fmt::format("{}.{}", card.arch / 10, card.arch % 10) + "\""});
    } else if (fit.fit == Fit::kJit) {
      d.note("torch_jit", "PyTorch runs from PTX on this card: the driver compiles its kernels at their first use.",
             how, {});
    }
  }
}

// LD_LIBRARY_PATH wins over the libraries that a wheel brings (case 33).
void check_replaced(Diagnosis& d, const std::string& torch) {
  const Version built(d.f.python.cuda);
  for (const Library& l : d.f.libraries) {
    const bool part = starts_with(l.name, "libnvJitLink.so.") || starts_with(l.name, "libcudart.so.");
    if (l.where != "LD_LIBRARY_PATH" || !part) continue;
    const Version found(l.version);
    if (found.parts.size() < 2 || found.major() != built.major() || found.release() == built.release()) continue;
    d.warning("torch_libraries_replaced",
              "LD_LIBRARY_PATH puts CUDA libraries of another release before those that PyTorch brings.",
              {torch, l.path + " is " + found.text(), d.env_text("LD_LIBRARY_PATH")},
              {"env -u LD_LIBRARY_PATH python3 …   # a wheel finds its own libraries"});
    return;
  }
}

}  // namespace

void check_python(Diagnosis& d) {
  const Python& p = d.f.python;
  if (p.torch.empty()) return;
  if (!p.error.empty() && p.version.empty()) {
    d.note("torch_broken", "PyTorch is installed, but cannot be imported.", {p.torch, p.error},
           {p.path + " -c 'import torch'"});
    return;
  }
  const std::string torch = fmt::format("PyTorch {} (CUDA {})", p.version, p.cuda.empty() ? "none" : p.cuda);
  if (p.cuda.empty()) {
    if (!contains(p.version, "rocm") && (d.works || !d.gpus.empty()))
      d.warning(
          "torch_cpu_only",
          "This PyTorch is a build without CUDA: torch.cuda.is_available() is False, whatever the "
          "driver.",
          {torch + " in " + p.torch},
          {"pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu128   # or the cuNNN "
           "of your driver"});
    return;
  }
  const Version cuda(p.cuda);
  if (d.driver.known() && cuda.known() && cuda.major() > d.driver.major())
    d.warning("torch_driver_too_old", "The driver is too old for this PyTorch: torch.cuda.is_available() is False.",
              {torch, "the driver goes up to CUDA " + d.driver.text()},
              {fmt::format("# a wheel for CUDA {}, or a newer driver:", d.driver.major()),
               d.install_driver(oldest_driver_for_major(cuda.major(), d.f.system.wsl))[0]});
  check_archs(d, torch);
  check_replaced(d, torch);
}

}  // namespace env_check
