// PyTorch: has its build kernels for the cards here, and does the driver start them?
#include <fmt/format.h>

#include "env_check/diagnosis.hpp"
#include "env_check/files.hpp"

namespace env_check {
namespace {

// The wheel for a card (and for the driver's major version): cu118 to cu130. A Jetson's are not PyTorch's own.
Lines install_torch(const Diagnosis& d) {
  const std::vector<Card> cards = cards_of(d.f);
  const int arch = cards.empty() ? 0 : cards[0].arch;
  if (d.f.system.tegra)
    return {"# a wheel for this JetPack, from https://pypi.jetson-ai-lab.io: PyTorch's own have no code for a Jetson"};
  std::string wheel = "cu128";
  if (d.driver.known() && d.driver.major() <= 11)
    wheel = "cu118";
  else if (arch > 0 && arch < 75)
    wheel = "cu126";
  else if (arch == 110)
    wheel = "cu130";
  return {"pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/" + wheel};
}

void check_archs(Diagnosis& d, const std::string& torch) {
  const Python& p = d.f.python;
  if (p.code.empty()) return;
  for (const Card& card : cards_of(d.f)) {
    if (card.guessed) continue;
    const CodeFit fit = best_fit(p.code, card.arch, d.driver);
    const Lines how = {fmt::format("{} on {} (sm_{})", torch, card.name, card.arch),
                       "compiled for " + code_list(p.code)};
    if (fit.fit == Fit::kNoCode || fit.fit == Fit::kPtxTooNew) {  // cases 40, 41
      const Version last = last_nvcc_for(card.arch);
      const bool too_old = last.known() && Version(p.cuda).release() > last;
      Lines fix = {too_old ? fmt::format("# a wheel built with CUDA {} or older still has this card:", last.text())
                           : "# a wheel with code for this card:"};
      for (const std::string& line : install_torch(d)) fix.push_back(line);
      fix.push_back(fmt::format("# extensions that you compile: export TORCH_CUDA_ARCH_LIST=\"{}.{}\"", card.arch / 10,
                                card.arch % 10));
      d.warning(
          "torch_no_arch",
          "This PyTorch has no kernels for the card: \"no kernel image is available\" (error 209). is_available() says "
          "True all the same.",
          how, fix);
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
      d.warning("torch_cpu_only",
                "This PyTorch is a build without CUDA: torch.cuda.is_available() is False, whatever the "
                "driver.",
                {torch + " in " + p.torch}, install_torch(d));
    return;
  }
  const Version cuda(p.cuda);
  if (d.driver.known() && cuda.known() && cuda.major() > d.driver.major()) {
    Lines fix = {fmt::format("# a wheel for CUDA {}:", d.driver.major())};
    for (const std::string& line : install_torch(d)) fix.push_back(line);
    for (const std::string& line : d.install_driver(oldest_driver_for_major(cuda.major(), d.f.system.wsl)))
      fix.push_back(line);
    d.warning("torch_driver_too_old", "The driver is too old for this PyTorch: torch.cuda.is_available() is False.",
              {torch, "the driver goes up to CUDA " + d.driver.text()}, fix);
  }
  check_archs(d, torch);
  check_replaced(d, torch);
}

}  // namespace env_check
