#include <algorithm>

#include "common/catch.hpp"
#include "common/lab/unsupported.hpp"

using Catch::Matchers::ContainsSubstring;

namespace {
const std::string kRun = "\nvoid run(Lab& lab) {}\n";

std::string told(const std::string& source) { return lab::unsupported_text("my.cuh", lab::unsupported(source)); }
}  // namespace

TEST_CASE("lab: constructs that the executor cannot run are named with line and the way round") {
  const std::vector<std::array<std::string, 3>> cases = {
      {"float v = tex1Dfetch<float>(t, i);", "texture", "__ldg"},
      {"texture<float, 1> t;", "texture", "__ldg"},
      {"__global__ void k(cudaTextureObject_t t) {}", "texture", "__ldg"},
      {"#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;", "cooperative groups", "__shfl_*_sync"},
      {"auto b = cg::this_thread_block();", "cooperative groups", "__syncthreads"},
      {"asm volatile(\"mov.u32 %0, %laneid;\" : \"=r\"(lane));", "inline assembly", "common/ptx.hpp"},
      {"k<<<1, 32>>>(x);", "<<<grid, block>>>", "launch(kernel"},
      {"__global__ void k(float* x) {\n  if (x) {\n    launch(k, 1, 1, how, x);\n  }\n}", "dynamic parallelism",
       "run()"},
      {"__global__ void k(float* x) {\n  k<<<1, 1>>>(x);\n}", "dynamic parallelism", "run()"},
      {"extern __shared__ float tile[];", "extern __shared__", "dynamic_shared<T>()"},
      {"nvcuda::wmma::load_matrix_sync(a, p, 16);", "wmma", "mma_m16n8k16_bf16"},
      {"cuda::atomic<int> a;", "libcu++", "atomicAdd"},
      {"cub::BlockReduce<float, 128> r;", "CUB", "__shfl_*_sync"},
      {"__constant__ float table[4];", "__constant__", "pass a pointer"},
      {"__global__ void __cluster_dims__(2) k() {}", "cluster", "one block"},
      {"long t = clock64();", "clock", "no time"},
      {"cudaMalloc(&x, 4);", "memory calls", "DeviceBuffer"},
      {"cudaDeviceSynchronize();", "runtime call", "leave it out"},
  };
  for (const auto& [source, construct, instead] : cases) {
    CAPTURE(source);
    CHECK_THAT(told(source + kRun), ContainsSubstring(construct) && ContainsSubstring(instead));
  }
}

TEST_CASE("lab: a construct in a comment or in quotes is none, and each has its line") {
  CHECK(told("// k<<<1, 1>>>() with a texture<float>\n/* asm(\"\") \n cub:: */ const char* s = \"cudaMalloc <<<\";" +
             kRun)
            .empty());
  CHECK(told("__device__ float f(float x);\nstd::cuda_like::x y; int clock_rate(int);" + kRun).empty());
  const auto found = lab::unsupported("\n\nk<<<1, 1>>>(); /*\n*/ cudaMalloc(&p, 1);" + kRun);
  REQUIRE(found.size() == 2);
  CHECK(found[0].line == 3);
  CHECK(found[1].line == 4);
  CHECK_THAT(lab::unsupported_text("my.cuh", found),
             ContainsSubstring("my.cuh:3: ") && ContainsSubstring("my.cuh:4: "));
}

TEST_CASE("lab: a launch in the host's function behind a kernel is no launch from a kernel") {
  CHECK(
      told("__global__ void k(float* x) { if (x) { *x = 1; } }\nvoid run(Lab& lab) { launch(k, 1, 1, lab.how(), p); }")
          .empty());
}

TEST_CASE("lab: a file that does not say how it is run is told how to") {
  CHECK_THAT(told("__global__ void k() {}"), ContainsSubstring("void run(Lab& lab)"));
  CHECK(told(kRun).empty());
}
