#include "09_cuda_graph_decode/linear.cuh"

#include "03_bank_conflict_padding/transpose.cuh"
#include "08_qwen_operators/linear_mma.cuh"
#include "common/launch.hpp"

namespace {

constexpr int kThreads = 256;

__global__ void widen_kernel(const bfloat16* x,  // [count]
                             float* y,           // [count]
                             size_t count) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) y[i] = __bfloat162float(x[i]);
}

__global__ void narrow_kernel(const float* x,        // [rows, columns]
                              const bfloat16* bias,  // [columns] or null
                              bfloat16* y,           // [rows, columns]
                              size_t count, int columns) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) y[i] = __float2bfloat16(x[i] + (bias ? __bfloat162float(bias[i % size_t(columns)]) : 0.f));
}

__global__ void add_kernel(const float* x,   // [count]
                           float* residual,  // [count]
                           size_t count) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) residual[i] += x[i];
}

dim3 blocks_for(size_t count) { return dim3(static_cast<unsigned>(ceil_div(count, size_t(kThreads)))); }

class Bfloat16Layers : public LinearLayers {
 public:
  void project(Stream& stream, const bfloat16* x, const Matrix& m, bfloat16* y, int rows) override {
    linear(stream, x, m.weight, y, rows, m.outputs, m.inputs, m.bias);
  }
  void add_to(Stream& stream, const bfloat16* x, const Matrix& m, float* residual, int rows) override {
    linear_add(stream, x, m.weight, residual, rows, m.outputs, m.inputs);
  }
  void logits(Stream& stream, const bfloat16* x, const Matrix& m, float* y) override {
    linear(stream, x, m.weight, y, 1, m.outputs, m.inputs, m.bias);
  }
};

}  // namespace

void widen(Stream& stream, const bfloat16* x, float* y, size_t count) {
  launch(widen_kernel, blocks_for(count), dim3(kThreads), on(stream), x, y, count);
}
void narrow(Stream& stream, const float* x, bfloat16* y, size_t count) {
  launch(narrow_kernel, blocks_for(count), dim3(kThreads), on(stream), x, nullptr, y, count, 1);
}

std::unique_ptr<LinearLayers> bfloat16_layers() { return std::make_unique<Bfloat16Layers>(); }

void Fp32Layers::add(Stream& stream, const Matrix& m, int most_rows) {
  DeviceBuffer<float>& copy = transposed_[m.weight];
  copy = DeviceBuffer<float>(size_t(m.outputs) * size_t(m.inputs));
  transpose(stream, m.weight, copy.data(), m.outputs, m.inputs);
  stream.synchronize();
  const size_t x = size_t(most_rows) * size_t(m.inputs), y = size_t(most_rows) * size_t(m.outputs);
  if (x > x_.size()) x_ = DeviceBuffer<float>(x);
  if (y > y_.size()) y_ = DeviceBuffer<float>(y);
}

void Fp32Layers::multiply(Stream& stream, const bfloat16* x, const Matrix& m, float* y, int rows) {
  widen(stream, x, x_.data(), size_t(rows) * size_t(m.inputs));
  gemm_(stream, Gemm{x_.data(), transposed_.at(m.weight).data(), y, rows, m.outputs, m.inputs});
}

void Fp32Layers::project(Stream& stream, const bfloat16* x, const Matrix& m, bfloat16* y, int rows) {
  multiply(stream, x, m, y_.data(), rows);
  const size_t count = size_t(rows) * size_t(m.outputs);
  launch(narrow_kernel, blocks_for(count), dim3(kThreads), on(stream), y_.data(), m.bias, y, count, m.outputs);
}

void Fp32Layers::add_to(Stream& stream, const bfloat16* x, const Matrix& m, float* residual, int rows) {
  multiply(stream, x, m, y_.data(), rows);
  const size_t count = size_t(rows) * size_t(m.outputs);
  launch(add_kernel, blocks_for(count), dim3(kThreads), on(stream), y_.data(), residual, count);
}

void Fp32Layers::logits(Stream& stream, const bfloat16* x, const Matrix& m, float* y) { multiply(stream, x, m, y, 1); }
