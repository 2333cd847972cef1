#include <algorithm>
#include <cstring>
#include <set>

#include "04_vectorized_double_buffer/stream_k_gemm.cuh"
#include "common/gemm_test.hpp"

namespace {

// Every k tile of every tile once; every piece that is not whole in a slot of its own.
void check_plan(const StreamKPlan& plan) {
  INFO("tiles " << plan.tiles << " depth " << plan.depth << " ranges " << plan.ranges << " cut " << plan.cut);
  std::vector<char> done(size_t(plan.tiles) * plan.depth, 0);
  std::vector<int> pieces(size_t(plan.cut), 0);
  std::set<int> slots;
  bool right = plan.begin(0) == 0 && plan.begin(plan.blocks()) == int64_t(done.size());
  for (int block = 0; block < plan.blocks(); ++block) {
    const int64_t begin = plan.begin(block), end = plan.begin(block + 1);
    for (int64_t at = begin; at < end;) {
      const StreamKPlan::Piece p = plan.piece(at, end);
      right = right && p.begin < p.end && p.end <= plan.depth && int64_t(p.tile) * plan.depth + p.begin == at;
      for (int k = p.begin; k < p.end; ++k) right = right && done.at(size_t(p.tile) * plan.depth + k)++ == 0;
      if (plan.whole(p)) {
        if (p.tile < plan.cut) ++pieces[p.tile];
      } else {
        const int order = pieces.at(p.tile)++;  // blocks come by here in the order of k
        const int slot = plan.slot(block, p.begin == 0);
        right = right && slots.insert(slot).second && slot >= 0 && slot < plan.slots();
        right = right && plan.first_range(p.tile) + order == block && block <= plan.last_range(p.tile);
        right = right && slot == plan.slot(plan.first_range(p.tile) + order, order == 0);  // where add_pieces looks
      }
      at += p.end - p.begin;
    }
    if (block < plan.ranges) {
      const int64_t share = int64_t(plan.cut) * plan.depth / plan.ranges;
      right = right && (end - begin == share || end - begin == share + 1);
    } else {
      right = right && end - begin == plan.depth && begin % plan.depth == 0;
    }
  }
  for (int tile = 0; tile < plan.cut; ++tile)
    right = right && pieces[tile] == plan.last_range(tile) - plan.first_range(tile) + 1 &&
            pieces[tile] <= plan.most_pieces();
  right = right && std::all_of(done.begin(), done.end(), [](char times) { return times == 1; });
  REQUIRE(right);
}

// 64 threads: cheap on the executor.
using SmallTile = WarpTiles<64, 64, 8, 8, 8, 1, 1>;

// As on a card of MULTIPROCESSORS.
template <class T, int MULTIPROCESSORS>
void on_card_of(Stream& stream, const Gemm& p) {
  const StreamKScratch<T> scratch(MULTIPROCESSORS);
  gemm_stream_k(stream, p, stream_k_plan<T>(p, MULTIPROCESSORS), scratch);
  stream.synchronize();
}
// All tiles cut into RANGES shares, whether that pays or not; twice, so that the second run finds what the first left.
template <class T, int RANGES>
void all_cut(Stream& stream, const Gemm& p) {
  StreamKPlan plan = stream_k_plan<T>(p, 1);
  plan.cut = plan.tiles;
  plan.ranges = std::min(RANGES, plan.tiles * plan.depth);
  const StreamKScratch<T> scratch(std::max(plan.ranges, plan.tiles));
  gemm_stream_k(stream, p, plan, scratch);
  stream.synchronize();
  for (unsigned count : scratch.arrived.to_host()) REQUIRE(count == 0);
  fill_bytes(stream, p.C, 0xff, sizeof(float) * size_t(p.M) * p.N);
  gemm_stream_k(stream, p, plan, scratch);
  stream.synchronize();
}

static_assert(stream_k_plan(512, 256, 132).cut == 116 + 132, "4096³: what three waves leave over, and one wave more");
static_assert(stream_k_plan(528, 256, 132).ranges == 0, "four whole waves: nothing to cut");

}  // namespace

TEST_CASE("04 stream-K plan: every k tile once, every partial tile in its own slot") {
  for (int multiprocessors : {1, 2, 3, 7, 132}) {
    int most_slots = 0;
    for (int depth : {1, 2, 3, 5, 8, 16, 37, 256})
      for (int tiles = 1; tiles <= 4 * multiprocessors + 1; tiles += multiprocessors > 100 && depth > 3 ? 13 : 1) {
        const StreamKPlan plan = stream_k_plan(tiles, depth, multiprocessors);
        check_plan(plan);
        CHECK(plan.cut < 2 * multiprocessors);
        CHECK(plan.slots() <= 2 * (multiprocessors - 1));
        if (tiles > multiprocessors) CHECK(plan.most_pieces() <= 2);
        if (plan.ranges > 0) CHECK((plan.tiles - plan.cut) % multiprocessors == 0);
        if (plan.ranges > 0) most_slots = std::max(most_slots, plan.slots());
      }
    CHECK(most_slots == 2 * (multiprocessors - 1));  // the scratch is not larger than it has to be
  }
  for (int tiles = 1; tiles <= 5; ++tiles)  // plans that do not pay are right as well
    for (int depth = 1; depth <= 7; ++depth)
      for (int cut = 1; cut <= tiles; ++cut)
        for (int ranges = 1; ranges <= cut * depth; ++ranges) check_plan({tiles, depth, ranges, cut});
  const StreamKPlan deep{1, 1 << 27, 132, 1};  // K = 2^31: places in the row pass 2^31
  CHECK(deep.range_of(deep.begin(131)) == 131);
  CHECK(deep.range_of(deep.begin(131) - 1) == 130);
}

TEST_CASE("04 stream-K plan: cut where that is faster, by the arithmetic of the lesson") {
  const auto waves = [](int tiles, int depth) { return stream_k_time(stream_k_plan(tiles, depth, 132), 132) / depth; };
  CHECK(waves(512, 256) == Approx(512 / 132. + 4 * kMoveTime / 256));       // 4096³
  CHECK(waves(2048, 512) == Approx(2048 / 132. + 4 * kMoveTime / 512));     // 8192³
  CHECK(waves(544, 64) == Approx(544 / 132. + 4 * kMoveTime / 64));         // 4095×4097×1023
  CHECK(waves(16, 256) == Approx(16 / 132. + (2 + 10) * kMoveTime / 256));  // 127×4096×4096: ten pieces a tile at most
  CHECK(waves(528, 256) == 4);
  CHECK(waves(131, 1) == 1);  // K = 16: moving the sums takes longer
  CHECK(stream_k_plan(544, 1, 132).ranges == 0);
  CHECK(stream_k_plan(100, 6, 132).ranges == 0);
}

TEST_CASE("04 stream-K: every shape, both paths, on cards of 1 to 132 multiprocessors") {
  uint64_t seed = 1;
  for (GemmLauncher launcher : {on_card_of<SmallTile, 1>, on_card_of<SmallTile, 2>, on_card_of<SmallTile, 3>,
                                on_card_of<SmallTile, 7>, on_card_of<SmallTile, 132>}) {
    check_gemm_shapes(launcher, 64, 64, 8);
    for (int tiles = 1; tiles <= 9; ++tiles) {
      check_gemm_exact(launcher, 3 * 64, tiles * 64, 200, ++seed);          // whole tiles, from 3 to 27
      check_gemm_exact(launcher, 2 * 64 + 1, tiles * 64 - 5, 203, ++seed);  // 4-byte path, ragged everywhere
    }
  }
  for (GemmLauncher launcher : {all_cut<SmallTile, 1>, all_cut<SmallTile, 2>, all_cut<SmallTile, 3>,
                                all_cut<SmallTile, 7>, all_cut<SmallTile, 132>}) {
    check_gemm_shapes(launcher, 64, 64, 8);
    for (int K : {1, 7, 8, 9, 64, 100}) check_gemm_exact(launcher, 70, 200, K, ++seed);
  }
}

TEST_CASE("04 stream-K, tile 128×256×16: every shape, both paths") {
  check_gemm_shapes(gemm_stream_k, 128, 256, 16);
  for (GemmLauncher launcher : {all_cut<StreamKTile, 2>, all_cut<StreamKTile, 5>}) {
    check_gemm_shapes(launcher, 128, 256, 16);
    check_gemm_exact(launcher, 131, 264, 5 * 16 - 4, 1);
    check_gemm_exact(launcher, 125, 266, 5 * 16 - 1, 2);
    check_gemm_special_values(launcher);
  }
}

TEST_CASE("04 stream-K: the same sums, bit for bit, in every run and for every order of the blocks") {
  const int M = 150, N = 210, K = 300;
  const DeviceBuffer<float> A(random_uniform(size_t(M) * K, 1)), B(random_uniform(size_t(K) * N, 2));
  DeviceBuffer<float> C(size_t(M) * N);
  std::vector<std::vector<float>> results;
  for (uint64_t order = 0; order < 8; ++order) {
#if !ON_GPU
    simt::set_block_order(order);
#endif
    Stream stream;
    C.poison();
    all_cut<SmallTile, 31>(stream, Gemm{A.data(), B.data(), C.data(), M, N, K});
    results.push_back(C.to_host());
  }
#if !ON_GPU
  simt::set_block_order(0);
#endif
  for (const auto& one : results) REQUIRE(std::memcmp(one.data(), results[0].data(), one.size() * sizeof(float)) == 0);
}

TEST_CASE("04 stream-K: the scratch is there before a graph is captured, and large enough") {
  const int M = 130, N = 300, K = 200;
  const auto a = random_integers(size_t(M) * K, 1), b = random_integers(size_t(K) * N, 2);
  const DeviceBuffer<float> A(a), B(b);
  DeviceBuffer<float> C(size_t(M) * N);
  const Gemm p{A.data(), B.data(), C.data(), M, N, K};
  Stream stream;
  CHECK_THROWS_AS(Graph::capture(stream, [&] { gemm_stream_k(stream, p); }), BadInput);
  gemm_stream_k(stream, p);
  stream.synchronize();
  const auto want = C.to_host();
  const size_t held = device_bytes_in_use();
  const Graph graph = Graph::capture(stream, [&] { gemm_stream_k(stream, p); });
  CHECK(device_bytes_in_use() == held);
  for (int i = 0; i < 2; ++i) {
    C.poison();
    graph.replay(stream);
    stream.synchronize();
    CHECK(C.to_host() == want);
  }
  const StreamKScratch<SmallTile> small(2);
  CHECK_THROWS_AS(gemm_stream_k(stream, p, stream_k_plan<SmallTile>(p, 9), small), BadInput);
}
