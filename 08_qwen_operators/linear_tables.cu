// 08 · linear layers: split-K and its rivals at one token, tensor cores at many
#include "08_qwen_operators/article.hpp"
#include "08_qwen_operators/cublas_linear.hpp"
#include "08_qwen_operators/gemv.cuh"
#include "08_qwen_operators/linear_mma.cuh"
#include "08_qwen_operators/linear_sm90.cuh"
#include "08_qwen_operators/partials_norm.cuh"
#include "08_qwen_operators/split_k.cuh"
#include "08_qwen_operators/tables.hpp"
#include "08_qwen_operators/weight_pool.cuh"

namespace {

template <class Out>
struct Buffers {
  int M, N, K;
  DeviceBuffer<bfloat16> x;
  WeightPool W;
  DeviceBuffer<Out> y;
  DeviceBuffer<float> partial;
};

constexpr int kMostSplit = 16;

template <class Out>
std::shared_ptr<Buffers<Out>> make_buffers(const Shape& shape, uint64_t seed) {
  auto b = std::make_shared<Buffers<Out>>();
  b->M = shape[0], b->N = shape[1], b->K = shape[2];
  b->x = DeviceBuffer<bfloat16>(size_t(b->M) * b->K);
  b->W = WeightPool(b->N, b->K, seed + 1);
  b->y = DeviceBuffer<Out>(size_t(b->M) * b->N);
  Stream stream;
  fill_random_bf16(stream, b->x.data(), b->x.size(), seed);
  stream.synchronize();
  return b;
}

template <class Out>
struct Table {
  Problem problem;
  std::shared_ptr<Buffers<Out>> buffers;
  using Run = std::function<void(Stream&, const Buffers<Out>&, const bfloat16* W)>;
  void add(std::string name, Run run, Rung::Role role = Rung::kRung, double workspace = 0, std::string skip = "") {
    Rung rung;
    rung.name = std::move(name);
    rung.role = role;
    rung.skip = std::move(skip);
    rung.workspace = workspace;
    rung.run = [run, b = buffers](Stream& s, int copy) { run(s, *b, b->W.at(copy)); };
    rung.check = [b = buffers] { return check_linear(b->x.data(), b->W.at(0), b->y, b->M, b->N, b->K); };
    problem.rungs.push_back(std::move(rung));
  }
};

template <class Out>
Table<Out> make_table(const Shape& shape, uint64_t seed) {
  Table<Out> t;
  t.buffers = make_buffers<Out>(shape, seed);
  const double M = shape[0], N = shape[1], K = shape[2];
  t.problem.shape = shape.text();
  t.problem.dtype = "bf16";
  t.problem.copies = t.buffers->W.copies();
  t.problem.flop = 2 * M * N * K;
  t.problem.bytes = 2 * (M * K + N * K) + sizeof(Out) * M * N;
  t.problem.poison = [b = t.buffers] { b->y.poison(); };
  t.problem.buffers = t.buffers;
  return t;
}

using Plain = const Buffers<float>&;

Problem build_decode(const Shape& shape, uint64_t seed) {
  if (shape[0] != 1) return {};  // the other table's
  auto t = make_table<float>(shape, seed);
  t.buffers->partial = DeviceBuffer<float>(size_t(kMostSplit) * shape[1]);
  const auto split_run = [](int split) {
    return [split](Stream& s, Plain b, const bfloat16* W) {
      gemv_split_k(s, b.x.data(), W, b.y.data(), b.partial.data(), b.N, b.K, split);
    };
  };
  t.add(
      "08 one thread an output",
      [](Stream& s, Plain b, const bfloat16* W) { linear_simple(s, b.x.data(), W, b.y.data(), 1, b.N, b.K); },
      Rung::kBaseline);
  t.add("08 SPLIT_K 1", split_run(1));
  for (const int split : {2, 4, 8, 16})
    t.add("08 SPLIT_K " + std::to_string(split) + ", partial + reduce", split_run(split), Rung::kRung,
          double(split_k_bytes(split, shape[1])));
  for (const int split : {2, 4, 8, 16})
    t.add("08 SPLIT_K " + std::to_string(split) + ", atomic", [split](Stream& s, Plain b, const bfloat16* W) {
      gemv_split_k_atomic(s, b.x.data(), W, b.y.data(), b.N, b.K, split);
    });
  for (const bool pdl : {false, true})
    t.add(pdl ? "08 gemv, dependent launch" : "08 gemv, slab in shared memory",
          [pdl](Stream& s, Plain b, const bfloat16* W) {
            gemv(s, b.x.data(), W, static_cast<const bfloat16*>(nullptr), b.y.data(), b.N, b.K, pdl);
          });
  t.problem.rungs.back().note = floor_note(t.problem.bytes);
  if (const auto peer = cublas_linear_float())
    t.add(
        "cuBLAS bf16",
        [peer](Stream& s, Plain b, const bfloat16* W) { peer(s, b.x.data(), W, b.y.data(), 1, b.N, b.K); },
        Rung::kPeer);
  return t.problem;
}

Problem build_prefill(const Shape& shape, uint64_t seed) {
  if (shape[0] == 1) return {};
  auto t = make_table<bfloat16>(shape, seed);
  using B = const Buffers<bfloat16>&;
  const auto arguments = [](B b, const bfloat16* W) {
    return LinearArguments<bfloat16>{b.x.data(), W, nullptr, b.y.data(), b.M, b.N, b.K, false};
  };
  const std::string no_mma = device().has_bf16_mma ? "" : "bfloat16 mma.sync needs sm_80";
  t.add(
      "08 SIMT, 64×64 tile", [=](Stream& s, B b, const bfloat16* W) { launch_linear_simt(s, arguments(b, W), false); },
      Rung::kBaseline);
  const auto add_tile = [&](auto tile, const char* name) {
    using Tile = decltype(tile);
    t.add(
        std::string("08 mma.sync, ") + name + " tile",
        [=](Stream& s, B b, const bfloat16* W) { launch_linear_mma<Tile>(s, arguments(b, W), false); }, Rung::kRung, 0,
        device().shared_bytes_per_block < Tile::SHARED ? "a block has too little shared memory here" : no_mma);
  };
  add_tile(LinearTile16x64(), "16×64");
  add_tile(LinearTile64x64(), "64×64");
  add_tile(LinearTile128x128(), "128×128");
  add_tile(LinearTile128x192(), "128×192");
  add_tile(LinearTile128x256(), "128×256");
  t.add("08 linear, the tile it picks",
        [](Stream& s, B b, const bfloat16* W) { linear(s, b.x.data(), W, b.y.data(), b.M, b.N, b.K); });
  const int M = shape[0], N = shape[1], split = linear_split(M, N, shape[2]);
  if (split > 1) {
    t.buffers->partial = DeviceBuffer<float>(size_t(split) * M * N);
    t.add(
        fmt::format("08 linear, K in {} pieces, and their sum", split),
        [split](Stream& s, B b, const bfloat16* W) {
          linear_partials(s, b.x.data(), W, b.partial.data(), b.M, b.N, b.K);
          sum_partials(s, b.partial.data(), b.y.data(), b.y.size(), split);
        },
        Rung::kRung, 4.0 * split * M * N);
  }
  std::string no_wgmma;
  if (!device().gpu)
    no_wgmma = "the lab does not count what the copy engine moves; lab08_test runs it";
  else if (!device().has_wgmma)
    no_wgmma = "wgmma needs compute capability 9.0 and code for sm_90a";
  else if (!linear_sm90_fits(arguments(*t.buffers, t.buffers->W.at(0))))
    no_wgmma = "the copy engine wants N and K in multiples of 8";
  const auto add_wgmma = [&](auto tile) {
    using Tile = decltype(tile);
    t.add(
        fmt::format("08 wgmma, 128×{} tile", Tile::BN),
        [=](Stream& s, B b, const bfloat16* W) { launch_linear_sm90<Tile>(s, arguments(b, W), false); }, Rung::kRung, 0,
        no_wgmma);
  };
  add_wgmma(LinearTileSm90x64());
  add_wgmma(LinearTileSm90x128());
  add_wgmma(LinearTileSm90x256());
  if (const auto peer = cublas_linear_bf16())
    t.add(
        "cuBLAS bf16", [peer](Stream& s, B b, const bfloat16* W) { peer(s, b.x.data(), W, b.y.data(), b.M, b.N, b.K); },
        Rung::kPeer);
  return t.problem;
}

// Inputs, outputs and the reference with its tolerance.
double bytes_needed(const Shape& s) {
  const double M = s[0], N = s[1], K = s[2];
  return 2 * M * K + WeightPool::bytes(N, K) + 20 * M * N +
         4.0 * N * (s[0] == 1 ? kMostSplit : M * linear_split(s[0], s[1], s[2]));
}

}  // namespace

std::vector<Step> linear_tables() {
  Step decode;
  decode.number = "08";
  decode.title = "decode linear layers, split-K";
  decode.form = "MxNxK";
  const int H = kArticle.hidden, I = kArticle.intermediate;
  decode.shapes = {{{1, kArticle.qkv(), H}},     {{1, 3072, H}}, {{1, H, H}}, {{1, I, H}}, {{1, H, I}},
                   {{1, kArticle.vocabulary, H}}};
  decode.small_shapes = {{{1, 96, 64}}, {{1, 301, 200}}};
  decode.memory_bound = true;
  decode.device_bytes = bytes_needed;
  decode.build = build_decode;
  Step prefill = decode;
  prefill.title = "prefill linear layers";
  prefill.shapes = {};
  for (const int M : {16, 256, 2048})
    for (const auto& [N, K] : std::vector<std::pair<int, int>>{{kArticle.qkv(), H}, {H, H}, {2 * I, H}, {H, I}})
      prefill.shapes.push_back({{M, N, K}});
  prefill.shapes.push_back({{4096, 4096, 4096}});
  prefill.small_shapes = {{{19, 67, 72}}, {{130, 140, 96}}};
  prefill.memory_bound = false;
  prefill.build = build_prefill;
  return {decode, prefill};
}
