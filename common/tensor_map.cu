#include "common/tensor_map.hpp"

#include <fmt/format.h>

namespace {

[[noreturn]] void refuse(const std::string& what) { throw BadInput("tensor map: " + what); }

void check_shape(const bfloat16* base, const TensorShape& s, TensorSwizzle swizzle) {
  const size_t rank = s.dims.size();
  if (rank < 2 || rank > 4 || s.strides.size() != rank - 1 || s.box.size() != rank)
    refuse(fmt::format("{} dims, {} strides and {} box sizes; wanted 2 to 4, one fewer, as many", rank,
                       s.strides.size(), s.box.size()));
  if (reinterpret_cast<uintptr_t>(base) % 16 != 0) refuse("the tensor does not start at a multiple of 16 bytes");
  for (const uint64_t dim : s.dims)
    if (dim < 1 || dim > (uint64_t{1} << 32)) refuse(fmt::format("a dimension of {}; wanted 1 to 2^32", dim));
  for (const uint64_t stride : s.strides)
    if (stride % 8 != 0 || stride >= (uint64_t{1} << 39))
      refuse(fmt::format("a stride of {} bytes; wanted a multiple of 16 below 2^40", 2 * stride));
  for (const uint32_t box : s.box)
    if (box < 1 || box > 256) refuse(fmt::format("a box of {}; wanted 1 to 256", box));
  if (s.box[0] % 8 != 0) refuse(fmt::format("rows of {} bytes in the box; wanted a multiple of 16", 2 * s.box[0]));
  if (swizzle == TensorSwizzle::k128Bytes && s.box[0] != 64)
    refuse(fmt::format("rows of {} bytes in a swizzled box; wanted 128", 2 * s.box[0]));
}

}  // namespace

#if !ON_GPU

TensorMap make_tensor_map(const bfloat16* base, const TensorShape& shape, TensorSwizzle swizzle) {
  check_shape(base, shape, swizzle);
  TensorMap map{};
  map.base = reinterpret_cast<char*>(const_cast<bfloat16*>(base));
  map.rank = static_cast<int>(shape.dims.size());
  map.swizzled = swizzle == TensorSwizzle::k128Bytes;
  for (size_t d = 0; d < 4; ++d) {
    const bool used = d < shape.dims.size();
    map.dims[d] = used ? shape.dims[d] : 1;
    map.box[d] = used ? shape.box[d] : 1;
    map.strides[d] = !used ? 0 : sizeof(bfloat16) * (d == 0 ? 1 : shape.strides[d - 1]);
  }
  return map;
}

#elif CUDART_VERSION >= 12000

namespace {

// The driver's function, by way of the runtime: a program that links libcuda would not start without a driver.
decltype(&cuTensorMapEncodeTiled) encode_function() {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000, cudaEnableDefault, &found));
#else
  CUDA_CHECK(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &address, cudaEnableDefault, &found));
#endif
  if (found != cudaDriverEntryPointSuccess || !address)
    throw EnvironmentError("the driver has no cuTensorMapEncodeTiled: it is older than CUDA 12.0");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(address);
}

}  // namespace

TensorMap make_tensor_map(const bfloat16* base, const TensorShape& shape, TensorSwizzle swizzle) {
  check_shape(base, shape, swizzle);
  static const auto encode = encode_function();
  cuuint64_t dims[4], strides[3];
  cuuint32_t box[4], steps[4];
  for (size_t d = 0; d < shape.dims.size(); ++d) {
    dims[d] = shape.dims[d];
    if (d > 0) strides[d - 1] = sizeof(bfloat16) * shape.strides[d - 1];
    box[d] = shape.box[d];
    steps[d] = 1;
  }
  alignas(64) CUtensorMap map;
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(shape.dims.size()),
             const_cast<bfloat16*>(base), dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             swizzle == TensorSwizzle::k128Bytes ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);  // none: zeros
  if (result != CUDA_SUCCESS)
    throw EnvironmentError(fmt::format("cuTensorMapEncodeTiled failed with CUDA driver error {}", int(result)));
  return map;
}

#else

TensorMap make_tensor_map(const bfloat16* base, const TensorShape& shape, TensorSwizzle swizzle) {
  check_shape(base, shape, swizzle);
  throw EnvironmentError("tensor maps need CUDA 12.0 or later; this program was built with an older toolkit");
}

#endif
