#include "01_naive_gemm/naive_gemm.cuh"
#include "02_smem_tiling/register_tile_gemm.cuh"
#include "03_bank_conflict_padding/padded_gemm.cuh"
#include "04_vectorized_double_buffer/best_gemm.cuh"
#include "09_cuda_graph_decode/linear.cuh"

GemmLauncher gemm_of_step(const std::string& step) {
  if (step == "01") return gemm_coalesced;
  if (step == "02") return gemm_register_tile;
  if (step == "03") return gemm_padded_4;
  if (step == "04") return gemm_best;
  return nullptr;
}
