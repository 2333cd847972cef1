#include "01_naive_gemm/cpu_gemm.hpp"
#include "01_naive_gemm/naive_gemm.cuh"
#include "common/gemm_step.hpp"

int main(int argc, char** argv) {
  GemmStep step("01", "naive GEMM");
  step.shapes({{{256, 256, 256}}, {{4096, 4096, 4096}}}, {{{192, 160, 136}}});
  step.host_rung("01 CPU loop, one core", gemm_cpu, 5e7);
  step.baseline("01 uncoalesced: x is the row", gemm_uncoalesced);
  step.rung("01 coalesced: x is the column", gemm_coalesced);
  return run_step(step, argc, argv);
}
