#include "06_fused_attention/fused_fp32.cuh"
#include "06_fused_attention/fused_mma.cuh"
#include "06_fused_attention/fused_sm90.cuh"
#include "06_fused_attention/problems.cuh"
#include "06_fused_attention/unfused.cuh"

namespace {

using Fp32 = AttentionProblem<float>;
using Bf16 = AttentionProblem<bfloat16>;

Problem fp32(const Shape& s, bool causal, uint64_t seed) {
  AttentionRungs<float> rungs(square(s, causal), 1, seed);
  auto scratch = std::make_shared<UnfusedScratch>(s[3], s[3], s[4]);
  rungs.add(
      "06 unfused: GEMM, softmax, GEMM", Rung::kBaseline, kFloatThroughout,
      [scratch](Stream& stream, const Fp32& p, int i) { attention_unfused(stream, p.cases[i].problem, *scratch); },
      double(scratch->bytes()));
  rungs.add("06 fused, CUDA cores", Rung::kRung, kFloatThroughout,
            [](Stream& stream, const Fp32& p, int i) { attention_fused_fp32(stream, p.cases[i].problem); });
  return rungs.done(s.text() + (causal ? " causal" : ""));
}

void fused_bf16(Stream& stream, const Bf16& p, int i) { attention_fused_fp32(stream, p.cases[i].problem); }
void fused_mma(Stream& stream, const Bf16& p, int i) { attention_fused_mma(stream, p.cases[i].problem); }
void fused_sm90(Stream& stream, const Bf16& p, int i) { attention_fused_sm90(stream, p.cases[i].problem); }

Problem bf16(const Shape& s, uint64_t seed) {
  AttentionRungs<bfloat16> rungs(square(s, true), 1, seed);
  rungs.add("06 fused, CUDA cores", Rung::kBaseline, kOutputBfloat16, fused_bf16);
  Rung& mma = rungs.add("06 fused, tensor cores (mma.sync)", Rung::kRung, kWeightsAndOutputBfloat16, fused_mma);
  if (!device().has_bf16_mma) mma.skip = "bfloat16 tensor cores begin with sm_80";
  Rung& hopper = rungs.add("06 fused, Hopper (wgmma, TMA)", Rung::kRung, kWeightsAndOutputBfloat16, fused_sm90);
  if (!device().has_wgmma) hopper.skip = "needs compute capability 9.0 and a build for sm_90a";
  return rungs.done(s.text() + " causal");
}

Problem decode(const Shape& s, uint64_t seed) {
  AttentionRungs<bfloat16> rungs(one_query(s), decode_copies(s), seed);
  const auto add = [&](const char* name, int splits, bool tensor_cores = true, bool ahead = false) {
    auto scratch = std::make_shared<DecodeScratch>(s[0], s[1], s[3], s[2], splits);
    scratch->tensor_cores = scratch->tensor_cores && tensor_cores;
    const auto run = [scratch, ahead](Stream& stream, const Bf16& p, int i) {
      DecodeAttention one = p.decode(i);
      one.keys_settled = ahead;  // no kernel of the chain writes a key
      attention_decode(stream, one, *scratch, ahead);
    };
    rungs.add(name, Rung::kRung, kOutputBfloat16, run, double(scratch->sums.bytes() + scratch->tops.bytes()));
  };
  const int split = std::min(kMostSplits, std::max(4, device().multiprocessors / s[1]));
  rungs.add("06 fused, one block a query head", Rung::kBaseline, kOutputBfloat16, fused_bf16);
  add("06 decode, one block a KV head", 1);
  add("06 decode, keys split", split);
  add("06 decode, keys split, CUDA cores", split, false);
  add("06 decode, split where it pays", 0);
  add("06 decode, the same, keys ahead", 0, true, true);
  return rungs.done(s.text() + " decode");
}

Step part(const char* title, const char* form, std::vector<Shape> shapes, Shape small) {
  Step step;
  step.number = "06";
  step.title = title;
  step.form = form;
  step.shapes = std::move(shapes);
  step.small_shapes = {std::move(small)};
  step.peer_name = "cuDNN";
  return step;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const form = "BxHxGxLxD";  // batch, heads, KV heads, length, head dimension
  Step full = part("fused attention, fp32", form, {{{1, 8, 8, 4096, 64}}, {{1, 8, 8, 1024, 64}}}, {{1, 2, 1, 150, 64}});
  full.device_bytes = [](const Shape& s) { return attention_bytes(square(s, false), 4, 1, true); };
  Step causal = full;
  full.build = [](const Shape& s, uint64_t seed) { return fp32(s, false, seed); };
  causal.build = [](const Shape& s, uint64_t seed) { return fp32(s, true, seed); };
  Step tensor = part("fused attention, bf16", form, {}, {{1, 4, 2, 150, 128}});
  tensor.shapes = {{{1, 8, 2, 8192, 128}}, {{1, 8, 2, 2048, 128}}, {{1, 16, 16, 8192, 128}}, {{1, 16, 16, 4096, 64}}};
  tensor.small_shapes.push_back({{1, 2, 2, 70, 64}});  // keeps its queries in registers
  tensor.device_bytes = [](const Shape& s) { return attention_bytes(square(s, true), 2, 1, false); };
  tensor.build = bf16;
  Step one = part("attention of one query, bf16", "HxGxLxD", {}, {{8, 2, 300, 128}});
  one.shapes = {{{8, 2, 32768, 128}}, {{8, 2, 8192, 128}}, {{8, 2, 512, 128}}, {{14, 2, 8192, 64}}};
  one.memory_bound = true;
  one.device_bytes = [](const Shape& s) { return attention_bytes(one_query(s), 2, decode_copies(s), false); };
  one.build = decode;
  return run_steps({full, causal, tensor, one}, argc, argv);
}
