#include "03_bank_conflict_padding/padded_gemm.cuh"
#include "04_vectorized_double_buffer/double_buffer_gemm.cuh"
#include "04_vectorized_double_buffer/prefetch_gemm.cuh"
#include "04_vectorized_double_buffer/vectorized_gemm.cuh"
#include "04_vectorized_double_buffer/warp_tile_gemm.cuh"
#include "common/gemm_step.hpp"

int main(int argc, char** argv) {
  GemmStep step("04", "float4, double buffer, warp tiles");
  step.baseline("03 +4: rows of 132", gemm_padded_4);
  step.rung("04 float4 global loads", gemm_vectorized_global, vector_path);
  step.rung("04 + float4 shared reads", gemm_vectorized_shared, vector_path);
  step.rung("04 + register prefetch", gemm_prefetch, vector_path);
  step.rung("04 + cp.async double buffer", gemm_double_buffer, copy_path);
  step.rung("04 + warp tiles", gemm_best, copy_path);
  step.rung("candidate 128×256×8, 16×8", gemm_warp_tile<Tile128x256>);
  step.rung("candidate 128×256×16, 16×8", gemm_warp_tile<Tile128x256Deep>);
  step.rung("candidate 128×128×8, 16×8", gemm_warp_tile<Tile128x128>);
  step.rung("candidate 128×128×16, 16×8", gemm_warp_tile<Tile128x128Deep>);
  step.rung("candidate 128×128×8, 8×8", gemm_warp_tile<Tile128x128Small>);
  step.rung("candidate 64×64×16, 4×8", gemm_warp_tile<Tile64x64>);
  return run_step(step, argc, argv);
}
