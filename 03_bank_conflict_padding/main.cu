#include "02_smem_tiling/register_tile_gemm.cuh"
#include "03_bank_conflict_padding/padded_gemm.cuh"
#include "03_bank_conflict_padding/transpose_step.hpp"
#include "03_bank_conflict_padding/wavefronts.hpp"
#include "common/gemm_step.hpp"

int main(int argc, char** argv) {
  GemmStep gemm("03", "bank-conflict padding");
  gemm.baseline("02 register tile: rows of 128 floats", gemm_register_tile, gemm_wavefronts_text<ConflictedA>);
  gemm.rung("03 +1: rows of 129", gemm_padded_1, gemm_wavefronts_text<Padded1A>);
  gemm.rung("03 +4: rows of 132", gemm_padded_4, gemm_wavefronts_text<Padded4A>);
  gemm.rung("03 XOR swizzle: rows of 128", gemm_swizzled, gemm_wavefronts_text<SwizzledA>);
  return run_steps({gemm, transpose_step()}, argc, argv);
}
