#include "09_cuda_graph_decode/weights.cuh"

#include <fmt/format.h>

#include <cmath>

#include "09_cuda_graph_decode/load_tensors.cuh"
#include "common/launch.hpp"

namespace {

constexpr size_t kAlignment = 128;  // elements: a group of tensors starts on a 256-byte boundary

// A normal deviate from a counter: two splitmix64 outputs through Box–Muller. Any thread can make any element.
__device__ float normal_of(uint64_t counter) {
  const auto mix = [](uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  };
  const uint64_t bits = mix(counter * 0x9e3779b97f4a7c15ull + 0x9e3779b97f4a7c15ull);
  const float u = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;  // (0, 1)
  const float v = static_cast<float>((bits >> 16) & 0xffffffu) * 0x1p-24f;
  return sqrtf(-2.f * logf(u)) * cosf(6.2831853f * v);
}

__global__ void fill_normal(bfloat16* out,  // [count]
                            size_t count, float mean, float deviation, uint64_t seed) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    out[i] = __float2bfloat16(mean + deviation * normal_of(seed + i));
}

// The next tensor may follow without a gap: k behind q, up behind gate.
bool continues_group(const std::string& name) {
  for (const char* part : {"k_proj.", "v_proj.", "up_proj."})
    if (name.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

Weights::Weights(const ModelConfig& config) : config_(config) {
  size_t end = 0;
  for (const ExpectedTensor& tensor : expected_tensors(config)) {  // in the order of the forward pass
    size_t count = 1;
    for (const uint64_t dim : tensor.shape) count *= dim;
    const size_t offset = continues_group(tensor.name) ? end : ceil_div(end, kAlignment) * kAlignment;
    tensors_.push_back({tensor.name, offset, count, tensor.shape.size() > 1 ? static_cast<int>(tensor.shape[1]) : 0});
    end = offset + count;
  }
  if (2.0 * static_cast<double>(end) > 0.97 * static_cast<double>(free_device_bytes()))
    throw EnvironmentError(fmt::format("the model's weights take {:.2f} GB, the device has {:.2f} GB free",
                                       2e-9 * double(end), 1e-9 * double(free_device_bytes())));
  arena_ = DeviceBuffer<bfloat16>(end);

  for (int i = 0; i < config.layers; ++i) {
    const std::string prefix = fmt::format("model.layers.{}.", i);
    const auto at = [&](const char* name) { return find(prefix + name); };
    layers_.push_back({at("input_layernorm.weight"), at("self_attn.q_proj.weight"), at("self_attn.q_proj.bias"),
                       at("self_attn.q_norm.weight"), at("self_attn.k_norm.weight"), at("self_attn.o_proj.weight"),
                       at("post_attention_layernorm.weight"), at("mlp.gate_proj.weight"), at("mlp.down_proj.weight")});
  }
  embedding_ = find("model.embed_tokens.weight");
  final_norm_ = find("model.norm.weight");
  lm_head_ = config.tied ? embedding_ : find("lm_head.weight");
}

Weights::Weights(const ModelConfig& config, const Checkpoint& checkpoint)
    : Weights((check_checkpoint(checkpoint, config), config)) {
  std::vector<TensorPlace> places;
  for (const Tensor& tensor : tensors_) places.push_back({tensor.name, arena_.data() + tensor.offset, tensor.count});
  load_tensors(checkpoint, places);
}

Weights::Weights(const ModelConfig& config, uint64_t seed) : Weights(config) {
  Stream stream;
  for (const Tensor& tensor : tensors_) {
    float mean = 0, deviation = 0.02f;
    if (tensor.name.find("norm") != std::string::npos)
      mean = 1, deviation = 0.1f;
    else if (tensor.name.find("layers") != std::string::npos && tensor.inputs > 0)
      deviation = 1 / std::sqrt(static_cast<float>(tensor.inputs));
    else if (tensor.inputs == 0)  // a bias
      deviation = 0.1f;
    launch(fill_normal, dim3(2048), dim3(256), on(stream), arena_.data() + tensor.offset, tensor.count, mean, deviation,
           (seed << 40) + tensor.offset);
  }
  stream.synchronize();
}

bfloat16* Weights::find(const std::string& name) const {
  for (const Tensor& tensor : tensors_)
    if (tensor.name == name) return arena_.data() + tensor.offset;
  return nullptr;
}

size_t Weights::bytes_per_token() const {
  const size_t embedding = size_t(config_.vocab) * static_cast<size_t>(config_.hidden) * sizeof(bfloat16);
  return arena_.bytes() - (config_.tied ? 0 : embedding);
}
