// Predicted wavefronts of this step's shared-memory requests: the addresses come from the layouts the kernels use, the
// cost from the rule in common/simt/request_cost.hpp. The worst request of a warp is reported.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "03_bank_conflict_padding/padded_gemm.cuh"
#include "common/simt/request_cost.hpp"

// Wavefronts of 4-byte requests in which lane l goes to float place(l).
template <class Place>
int wavefronts(bool load, Place place) {
  return simt::shared_cost(simt::warp_request(load, 4, [&](int lane) { return 4 * place(lane); })).wavefronts;
}

struct GemmWavefronts {
  int store_a = 0, read_a = 0, read_b = 0;
};

template <class LayoutA>
GemmWavefronts gemm_wavefronts() {
  GemmWavefronts w;
  const auto worst = [](int& so_far, int cost) { so_far = std::max(so_far, cost); };
  for (int t0 = 0; t0 < PaddedGemm::kThreads; t0 += 32) {
    for (int i = 0; i < PaddedGemm::BM; i += PaddedGemm::kThreads / PaddedGemm::BK)
      worst(w.store_a, wavefronts(false, [&](int lane) {
              return LayoutA::at((t0 + lane) % PaddedGemm::BK, (t0 + lane) / PaddedGemm::BK + i);
            }));
    for (int k = 0; k < PaddedGemm::BK; ++k)
      for (int i = 0; i < PaddedGemm::BM; i += 16) {
        worst(w.read_a, wavefronts(true, [&](int lane) { return LayoutA::at(k, (t0 + lane) / 16 + i); }));
        worst(w.read_b, wavefronts(true, [&](int lane) { return k * PaddedGemm::BN + (t0 + lane) % 16 + i; }));
      }
  }
  return w;
}

// For the table, beside the rung.
template <class LayoutA>
std::string gemm_wavefronts_text(const Gemm&) {
  const GemmWavefronts w = gemm_wavefronts<LayoutA>();
  return fmt::format("wavefronts predicted: store As {}, read As {}, read Bs {}", w.store_a, w.read_a, w.read_b);
}

// Of the transpose: a row of the tile is stored, a column of it read.
template <class Layout>
int transpose_store_wavefronts() {
  return wavefronts(false, [](int lane) { return Layout::at(0, lane); });
}
template <class Layout>
int transpose_read_wavefronts() {
  return wavefronts(true, [](int lane) { return Layout::at(lane, 0); });
}
template <class Layout>
std::string transpose_wavefronts_text() {
  return fmt::format("wavefronts predicted: store row {}, read column {}", transpose_store_wavefronts<Layout>(),
                     transpose_read_wavefronts<Layout>());
}
