// The tables of data/, and the rules of which code runs on which card.
#include "env_check/compatibility.hpp"
#include "env_check/tables.hpp"
#include "env_check/test_harness.hpp"
#include "env_check/test_support.hpp"

using namespace env_check;

TEST_CASE("env_check versions compare by number") {
  CHECK(Version("12.4.127") < Version("12.10"));
  CHECK(Version("580") == Version("580.0.0"));
  CHECK(Version("580.95.05") > Version("580.65.06"));
  CHECK(Version("13.0.88").release() == Version(13, 0));
  CHECK_FALSE(Version("").known());
  CHECK_FALSE(Version("abc").known());
  CHECK(Version("99999999999999999999.1").major() == 2147483647);
  CHECK(Version("12.4-rc1").text() == "12.4");
  CHECK(Version("580.95.05").text() == "580.95.05");  // not .5: that is no driver's name
  CHECK(Version("12.").text() == "12");
  CHECK(cuda_version(12040) == Version(12, 4));
}

TEST_CASE("env_check tables answer for known toolkits, cards and drivers") {
  CHECK(driver_for_toolkit(Version(12, 4), false) == "550.54.14");
  CHECK(driver_for_toolkit(Version(12, 4), true) == "551.61");
  CHECK(driver_for_toolkit(Version(12, 7), false).empty());
  CHECK(oldest_driver_for_major(13, false) == "580.65.06");
  CHECK(cuda_of_driver(Version("580.159.04")) == Version(13, 0));
  CHECK(cuda_of_driver(Version("470.57.02")) == Version(11, 4));
  CHECK_FALSE(cuda_of_driver(Version("390.1")).known());
  CHECK(cuda_of_ptx(Version(8, 0)) == Version(12, 0));
  CHECK(cuda_of_ptx(Version(99, 0)) > Version(13, 3));
  CHECK(cuda_of_ptx(Version(99, 0)).text() == "13.4");

  REQUIRE(archs_of_nvcc(Version("13.0.88")));
  CHECK(archs_of_nvcc(Version("13.0.88"))->lowest() == 75);
  CHECK(archs_of_nvcc(Version("12.6.20"))->highest() == 90);
  CHECK(archs_of_nvcc(Version("12.8"))->newest_below(103) == 101);
  CHECK_FALSE(archs_of_nvcc(Version("10.2")));
  CHECK(archs_of_nvcc(Version("14.0"))->beyond_table);
  CHECK_FALSE(archs_of_nvcc(Version("13.0.999"))->beyond_table);
  CHECK(first_nvcc_for(86) == Version(11, 1));
  CHECK(first_nvcc_for(120) == Version(12, 8));
  CHECK(first_nvcc_for(90) == Version(11, 8));
  CHECK(last_nvcc_for(61) == Version(12, 9));
  CHECK(last_nvcc_for(37) == Version(11, 8));
  CHECK_FALSE(last_nvcc_for(75).known());

  REQUIRE(compiler_limit(Version("12.2.140")));
  CHECK(compiler_limit(Version("12.2.140"))->gcc == 12);
  CHECK(compiler_limit(Version("12.7"))->gcc == 13);  // no row: the one before
  CHECK_FALSE(compiler_limit(Version("9.1")));
}

TEST_CASE("env_check knows cards by PCI id, the narrowest range first") {
  CHECK(arch_of_pci(0x2335) == 90);  // H200, inside the range of the RTX 30
  CHECK(arch_of_pci(0x2504) == 86);
  CHECK(arch_of_pci(0x20b5) == 80);  // A100, inside the range of Turing
  CHECK(arch_of_pci(0x1eb8) == 75);  // T4
  CHECK(arch_of_pci(0x15f8) == 60);  // P100, inside Maxwell's
  CHECK(arch_of_pci(0x2b85) == 120);
  CHECK_FALSE(arch_of_pci(0x0000));
  CHECK_FALSE(arch_of_pci(0xffff));
  CHECK_FALSE(cards_of_arch(86).empty());
  CHECK(cards_of_arch(1).empty());
  CHECK(error_code(209).name == "cudaErrorNoKernelImageForDevice");
  CHECK(error_code(-5).name == "error -5");
}

TEST_CASE("env_check: which code runs on which card") {
  CHECK(fits(cubin(80), 86));
  CHECK(fits(cubin(80), 89));
  CHECK_FALSE(fits(cubin(86), 80));
  CHECK_FALSE(fits(cubin(89), 90));
  CHECK_FALSE(fits(cubin(100), 120));
  CHECK(fits(cubin(90, "a"), 90));
  CHECK_FALSE(fits(cubin(100, "a"), 103));
  CHECK(fits(cubin(100, "f"), 103));
  CHECK_FALSE(fits(cubin(103, "f"), 100));
  CHECK_FALSE(fits(cubin(100, "f"), 110));
  CHECK(fits(ptx(80, 8, 0), 120));
  CHECK_FALSE(fits(ptx(90, 8, 0), 86));
  CHECK_FALSE(fits(ptx(90, 8, 0, "a"), 100));
  CHECK(fits(ptx(120, 8, 8, "f"), 121));
  CHECK_FALSE(fits(ptx(100, 8, 8, "f"), 120));
}

TEST_CASE("env_check: the best of several kinds of code") {
  const Version driver(12, 4);
  CHECK(best_fit({ptx(80, 8, 0), cubin(80)}, 86, driver).fit == Fit::kRuns);
  CHECK(best_fit({cubin(80), cubin(86)}, 86, driver).code.arch == 86);
  CHECK(best_fit({cubin(80), ptx(80, 8, 0)}, 90, driver).fit == Fit::kJit);
  CHECK(best_fit({ptx(80, 8, 7)}, 90, driver).fit == Fit::kPtxTooNew);
  CHECK(best_fit({ptx(80, 8, 7), ptx(75, 8, 0)}, 90, driver).fit == Fit::kJit);
  CHECK(best_fit({ptx(80, 8, 7)}, 90, Version()).fit == Fit::kJit);
  CHECK(best_fit({cubin(80)}, 90, driver).fit == Fit::kNoCode);
  CHECK_FALSE(best_fit({cubin(80)}, 90, driver).only_specific);
  CHECK(best_fit({cubin(90, "a")}, 120, driver).only_specific);
  CHECK(best_fit({}, 90, driver).fit == Fit::kNoCode);
}

TEST_CASE("env_check names the architectures to build for") {
  Facts f;
  CHECK(cuda_architectures(f).empty());
  Toolkit t;
  t.version = "12.8.61";
  t.from = "PATH";
  f.toolkits = {t};
  CudaDevice d;
  const auto with = [&](std::vector<std::pair<int, int>> cards) {
    f.driver.devices.clear();
    for (auto [major, minor] : cards) {
      d.major = major, d.minor = minor;
      f.driver.devices.push_back(d);
    }
    return cuda_architectures(f);
  };
  CHECK(with({{8, 6}}) == "86");
  CHECK(with({{9, 0}, {8, 0}, {9, 0}}) == "80;90a");
  CHECK(with({{12, 0}, {8, 6}}) == "86;120");
  CHECK(with({{12, 1}}) == "120-virtual");
  CHECK(with({{2, 0}}).empty());
  f.toolkits[0].version = "11.8.89";
  CHECK(with({{9, 0}}) == "90");
}
