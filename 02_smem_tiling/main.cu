#include "01_naive_gemm/naive_gemm.cuh"
#include "02_smem_tiling/register_tile_gemm.cuh"
#include "02_smem_tiling/tiled_gemm.cuh"
#include "common/gemm_step.hpp"

int main(int argc, char** argv) {
  GemmStep step("02", "shared-memory tiling");
  step.baseline("01 coalesced", gemm_coalesced);
  step.rung("02 tile 32×32, one output a thread", gemm_tiled_32);
  step.rung("02 + 8 outputs a thread", gemm_register_column);
  step.rung("02 + 8×8 outputs a thread", gemm_register_tile);
  return run_step(step, argc, argv);
}
