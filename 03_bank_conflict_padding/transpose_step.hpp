// The second table of this step: every form of the transpose, beside a plain copy of as many bytes.
#pragma once
#include "03_bank_conflict_padding/transpose.cuh"
#include "03_bank_conflict_padding/wavefronts.hpp"
#include "common/random.hpp"
#include "common/step.hpp"

struct TransposeBuffers {
  DeviceBuffer<float> in, out;
  DeviceBuffer<bfloat16> small_in;
  std::vector<float> copied, transposed;  // what the output has to be
};

inline Problem build_transpose(const Shape& shape, uint64_t seed) {
  const int rows = shape[0], cols = shape[1];
  const size_t count = size_t(rows) * cols;
  auto b = std::make_shared<TransposeBuffers>();
  b->copied = random_integers(count, seed, 100);  // exact in bfloat16
  b->transposed.resize(count);
  std::vector<bfloat16> small(count);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      const size_t i = size_t(r) * cols + c;
      b->transposed[size_t(c) * rows + r] = b->copied[i];
      small[i] = __float2bfloat16(b->copied[i]);
    }
  b->in = DeviceBuffer<float>(b->copied);
  b->small_in = DeviceBuffer<bfloat16>(small);
  b->out = DeviceBuffer<float>(count);

  Problem problem;
  problem.shape = shape.text();
  problem.bytes = 8.0 * static_cast<double>(count);
  problem.buffers = b;
  problem.poison = [b] { b->out.poison(); };
  const auto add = [&](const char* name, Rung::Role role, std::string note, std::function<void(Stream&)> run) {
    Rung rung;
    rung.name = name;
    rung.role = role;
    rung.note = std::move(note);
    rung.run = [run = std::move(run)](Stream& stream, int) { run(stream); };
    rung.check = [b, rows, cols, copy = role == Rung::kPeer] {
      return copy ? compare_exact(b->out.to_host(), b->copied, size_t(cols))
                  : compare_exact(b->out.to_host(), b->transposed, size_t(rows));
    };
    problem.rungs.push_back(std::move(rung));
  };
  const auto form = [=](auto transpose_form) {
    return [=](Stream& stream) { transpose_form(stream, b->in.data(), b->out.data(), rows, cols); };
  };
  add("03 transpose naive", Rung::kBaseline, "a store touches 32 sectors", form(transpose_naive<float, float>));
  add("03 transpose tiled, conflicted", Rung::kRung, transpose_wavefronts_text<Plain<32, 32>>(),
      form(transpose_conflicted<float, float>));
  add("03 transpose tiled, rows of 33", Rung::kRung, transpose_wavefronts_text<Padded<32, 32, 1>>(),
      form(transpose_padded<float, float>));
  add("03 transpose tiled, XOR swizzle", Rung::kRung, transpose_wavefronts_text<Swizzled<32, 32, 1>>(),
      form(transpose_swizzled<float, float>));
  add("03 transpose 64×64 tile, rows of 65", Rung::kRung, transpose_wavefronts_text<Padded<64, 64, 1>>(),
      form(transpose_padded_64<float, float>));
  add("03 transpose best, bf16 to fp32", Rung::kRung, "6 bytes an element",
      [=](Stream& stream) { transpose(stream, b->small_in.data(), b->out.data(), rows, cols); });
  problem.rungs.back().bytes = 6.0 * static_cast<double>(count);
  add("plain copy", Rung::kPeer, "",
      [=](Stream& stream) { copy_bytes_on_device(stream, b->out.data(), b->in.data(), b->in.bytes()); });
  return problem;
}

inline Step transpose_step() {
  Step step;
  step.number = "03";
  step.title = "transpose";
  step.form = "RxC";
  step.shapes = {{{8192, 8192}}};
  step.small_shapes = {{{320, 224}}};
  step.memory_bound = true;
  step.peer_name = "copy";
  step.device_bytes = [](const Shape& s) { return 10.0 * s[0] * s[1]; };
  step.build = build_transpose;
  return step;
}
