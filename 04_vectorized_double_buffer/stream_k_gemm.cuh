// 04 · stream-K: no multiprocessor waits for the last wave
//
// Against register banks: the same loop, but blocks get equal shares of the k tiles, not whole tiles (stream_k_plan.hpp).
// Where a share ends inside a tile, each side leaves its sums in memory, and whoever comes last adds them, in the order of
// k. Nobody waits for anybody: any order of the blocks gives the same bits.
// Predict: tiles / multiprocessors waves instead of the next whole number: 512 / 132 = 3.88 instead of 4 at 4096³, 4.12
//          instead of 5 at 4095×4097. Each share moves about four tiles of sums, 128 KB each, through L2: as long as 24
//          columns of A.
// Run: make step04     Look closer: make lab04 · make profile04
#pragma once
#include "04_vectorized_double_buffer/stream_k_plan.hpp"
#include "04_vectorized_double_buffer/warp_tile_gemm.cuh"

// The executor has one multiprocessor, for which nothing is ever cut; there the plan is that of a small card.
inline int stream_k_multiprocessors() { return device().gpu ? device().multiprocessors : 3; }

// What blocks leave for the last of them: room for every plan on so many multiprocessors.
template <class T>
struct StreamKScratch {
  StreamKScratch() : StreamKScratch(stream_k_multiprocessors()) {}
  explicit StreamKScratch(int multiprocessors)
      : partials(size_t(2 * (multiprocessors - 1)) * T::BM * T::BN),
        arrived(std::vector<unsigned>(size_t(2 * multiprocessors), 0u)) {}
  DeviceBuffer<float> partials;    // [slots, BM, BN]
  DeviceBuffer<unsigned> arrived;  // [tiles that are cut]: pieces that are there; 0 between launches
};

// True in the last of `count` blocks to come here; all its threads then see what the others have written before.
__device__ __forceinline__ bool last_to_arrive(unsigned* arrived, unsigned count) {
  __shared__ bool last;
  __threadfence();  // what this thread has written is visible to the card …
  __syncthreads();  // … every thread's is, before the block counts itself
  if (threadIdx.x == 0) last = atomicInc(arrived, count - 1) == count - 1;  // wraps to 0: ready for the next launch
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// C of one tile = the sums of its pieces, added in their order. 32 loads of a thread are on their way at a time.
template <class T>
__device__ __forceinline__ void add_pieces(float* C, const float* partials, const StreamKPlan& plan, int tile, int M,
                                           int N, int row0, int col0) {
  constexpr int kTile = T::BM * T::BN, kBatch = 32;
  static_assert(kTile % (T::kThreads * kBatch) == 0, "a tile is a whole number of batches");
  const int first = plan.first_range(tile), last = plan.last_range(tile);
  for (int base = threadIdx.x; base < kTile; base += T::kThreads * kBatch) {
    float total[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      total[i] = partials[size_t(plan.slot(first, true)) * kTile + base + i * T::kThreads];
    for (int range = first + 1; range <= last; ++range)
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        total[i] += partials[size_t(plan.slot(range, false)) * kTile + base + i * T::kThreads];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int row = row0 + (base + i * T::kThreads) / T::BN, col = col0 + (base + i * T::kThreads) % T::BN;
      if (row < M && col < N) C[size_t(row) * N + col] = total[i];
    }
  }
}

// [stream-K]
template <class T, bool VECTOR>
__global__ void __launch_bounds__(T::kThreads, T::kBlocksPerSm)
    gemm_stream_k_kernel(const float* A,     // [M, K]
                         const float* B,     // [K, N]
                         float* C,           // [M, N]
                         float* partials,    // [plan.slots(), BM, BN]
                         unsigned* arrived,  // [plan.cut]
                         int M, int N, int K, StreamKPlan plan) {
  float* const shared = dynamic_shared<float>();
  const int64_t end = plan.begin(blockIdx.x + 1);
  for (int64_t at = plan.begin(blockIdx.x); at < end;) {
    const StreamKPlan::Piece piece = plan.piece(at, end);
    const int tiles_wide = ceil_div(N, T::BN);
    const int row0 = piece.tile / tiles_wide * T::BM, col0 = piece.tile % tiles_wide * T::BN;
    float sum[T::TM][T::TN] = {};
    add_product<T, true, VECTOR>(sum, shared, A, B, M, N, K, row0, col0, piece.begin * T::BK,
                                 min(K, piece.end * T::BK));
    if (plan.whole(piece)) {
      write_strips<T, true>(C, sum, shared, M, N, row0, col0);
      __syncthreads();  // all have read the strips; the next tiles take their place
    } else {
      const int slot = plan.slot(blockIdx.x, piece.begin == 0);
      write_strips<T, true>(partials + size_t(slot) * T::BM * T::BN, sum, shared, T::BM, T::BN, 0, 0);
      const int pieces = plan.last_range(piece.tile) - plan.first_range(piece.tile) + 1;
      if (last_to_arrive(arrived + piece.tile, pieces)) add_pieces<T>(C, partials, plan, piece.tile, M, N, row0, col0);
    }
    at += piece.end - piece.begin;
  }
}
// [/stream-K]

template <class T>
StreamKPlan stream_k_plan(const Gemm& p, int multiprocessors) {
  return stream_k_plan(ceil_div(p.M, T::BM) * ceil_div(p.N, T::BN), ceil_div(p.K, T::BK), multiprocessors);
}

// The bits of C depend on the plan and on nothing else. Throws BadInput for a plan that the scratch has no room for.
template <class T>
void gemm_stream_k(Stream& stream, const Gemm& p, const StreamKPlan& plan, const StreamKScratch<T>& scratch) {
  if (size_t(plan.slots()) * T::BM * T::BN > scratch.partials.size() || size_t(plan.cut) > scratch.arrived.size())
    throw BadInput("gemm_stream_k: the scratch was made for fewer multiprocessors than the plan");
  launch(rows_of_B_aligned(p) ? gemm_stream_k_kernel<T, true> : gemm_stream_k_kernel<T, false>, dim3(plan.blocks()),
         dim3(T::kThreads), on(stream).smem(T::kSharedBytes), p.A, p.B, p.C, scratch.partials.data(),
         scratch.arrived.data(), p.M, p.N, p.K, plan);
}

using StreamKTile = Tile128x256;

// With the stream's own scratch, 34 MB on 132 multiprocessors. The first call on a stream allocates it.
inline void gemm_stream_k(Stream& stream, const Gemm& p) {
  gemm_stream_k(stream, p, stream_k_plan<StreamKTile>(p, stream_k_multiprocessors()),
                stream.scratch<StreamKScratch<StreamKTile>>());
}

// For the table of the step: the path, and how much is cut.
inline std::string stream_k_path(const Gemm& p) {
  const StreamKPlan plan = stream_k_plan<StreamKTile>(p, stream_k_multiprocessors());
  return std::to_string(plan.cut) + " of " + std::to_string(plan.tiles) + " tiles cut into " +
         std::to_string(plan.ranges) + " shares, " + copy_path(p);
}
