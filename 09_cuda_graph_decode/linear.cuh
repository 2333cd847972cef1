// 09 · y = x · Wᵀ for every matrix of the model, by the kernels of step 08 or, for the ladder, of steps 01 to 04
#pragma once
#include <memory>
#include <string>
#include <unordered_map>

#include "common/gemm.hpp"

// A linear layer: W [outputs, inputs] as the checkpoint stores it, and a bias or null.
struct Matrix {
  const bfloat16* weight;
  const bfloat16* bias;
  int outputs, inputs;
};

class LinearLayers {
 public:
  virtual ~LinearLayers() = default;
  // y = x·Wᵀ + bias, rounded to bfloat16.
  virtual void project(Stream& stream,
                       const bfloat16* x,  // [rows, inputs]
                       const Matrix& matrix,
                       bfloat16* y,  // [rows, outputs]
                       int rows) = 0;
  // residual += x·Wᵀ
  virtual void add_to(Stream& stream,
                      const bfloat16* x,  // [rows, inputs]
                      const Matrix& matrix,
                      float* residual,  // [rows, outputs]
                      int rows) = 0;
  // y = x·Wᵀ for one row, in float: the logits.
  virtual void logits(Stream& stream,
                      const bfloat16* x,  // [inputs]
                      const Matrix& matrix,
                      float* y) = 0;  // [outputs]
};

// y = x, between the two formats.
void widen(Stream& stream, const bfloat16* x, float* y, size_t count);
void narrow(Stream& stream, const float* x, bfloat16* y, size_t count);

// The GEMM that step "01", "02", "03" or "04" lends to the decoder; null for any other word.
GemmLauncher gemm_of_step(const std::string& step);

// bfloat16 weights and tensor cores: step 08.
std::unique_ptr<LinearLayers> bfloat16_layers();

// fp32 weights and one of the GEMMs of steps 01 to 04, which want B as [inputs, outputs]: every matrix that is named in
// add() gets a transposed fp32 copy, made by step 03's kernel. Products are exact, so only the order of sums differs
// from step 08's result.
class Fp32Layers : public LinearLayers {
 public:
  explicit Fp32Layers(GemmLauncher gemm) : gemm_(gemm) {}
  // Waits for the copy; allocates what later calls of up to `most_rows` rows need.
  void add(Stream& stream, const Matrix& matrix, int most_rows);
  void project(Stream& stream, const bfloat16* x, const Matrix& matrix, bfloat16* y, int rows) override;
  void add_to(Stream& stream, const bfloat16* x, const Matrix& matrix, float* residual, int rows) override;
  void logits(Stream& stream, const bfloat16* x, const Matrix& matrix, float* y) override;

 private:
  void multiply(Stream& stream, const bfloat16* x, const Matrix& matrix, float* y, int rows);
  GemmLauncher gemm_;
  std::unordered_map<const bfloat16*, DeviceBuffer<float>> transposed_;
  DeviceBuffer<float> x_, y_;
};
