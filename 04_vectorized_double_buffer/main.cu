#include "03_bank_conflict_padding/padded_gemm.cuh"
#include "04_vectorized_double_buffer/best_gemm.cuh"
#include "04_vectorized_double_buffer/double_buffer_gemm.cuh"
#include "04_vectorized_double_buffer/prefetch_gemm.cuh"
#include "04_vectorized_double_buffer/vectorized_gemm.cuh"
#include "common/gemm_step.hpp"

int main(int argc, char** argv) {
  GemmStep step("04", "float4, double buffer, warp tiles");
  step.shapes({{{4096, 4096, 4096}},
               {{8192, 8192, 8192}},
               {{2048, 2048, 2048}},
               {{1024, 1024, 1024}},
               {{512, 512, 512}},
               {{4095, 4097, 1023}},
               {{127, 4096, 4096}},
               {{1, 4096, 4096}},
               {{16, 4096, 4096}}},
              {{{192, 160, 136}},
               {{3, 160, 520}},     // five slabs: the ring of the skinny form goes round
               {{32, 64, 128}},     // an even number of k tiles
               {{136, 264, 48}}});  // four of the largest tiles: stream-K has a share of a whole tile and a piece
  step.baseline("03 +4: rows of 132", gemm_padded_4);
  step.rung("04 float4 global loads", gemm_vectorized_global, vector_path);
  step.rung("04 + float4 shared reads", gemm_vectorized_shared, vector_path);
  step.rung("04 + register prefetch", gemm_prefetch, vector_path);
  step.rung("04 + cp.async double buffer", gemm_double_buffer, copy_path);
  step.rung("04 + warp tiles", gemm_warp_tile<Tile128x256, false>, copy_path);
  step.rung("04 + register banks", gemm_warp_tile<Tile128x256>, copy_path);
  step.rung("04 + stream-K", gemm_stream_k, stream_k_path);
  for (size_t i = 1; i < std::size(kTiles); ++i)  // the first is the rung above
    step.rung(std::string("04 tile ") + kTiles[i].name, kTiles[i].launcher, copy_path);
  step.rung("04 tuned: best tile for the shape", gemm_best, best_path);
  return run_step(step, argc, argv);
}
