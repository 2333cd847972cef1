// A tensor map tells Hopper's copy engine (TMA) where a tensor lies and which box of it one copy moves.
//
// It is made on the host and handed to a kernel as `const __grid_constant__ TensorMap map`; tma_load and tma_store
// (common/ptx_sm90.hpp) name it together with the coordinates of a box.
#pragma once
#include "common/device.hpp"

#if ON_GPU
#if CUDART_VERSION >= 12000
#include <cuda.h>
using TensorMap = CUtensorMap;
#else
struct TensorMap {};  // CUDA 11 knows no Hopper; make_tensor_map throws
#endif
#else
#include "common/simt/tensor_map.hpp"
using simt::TensorMap;
#endif

// How a box lies in shared memory: its rows one behind the other, or, with rows of 128 bytes, chunk c of 16 bytes of a
// row at place c ^ (row mod 8), so that the same chunk of 8 rows meets all 32 banks. wgmma reads the second form. Its
// place must start at a multiple of 1024 bytes.
enum class TensorSwizzle { kNone, k128Bytes };

// A bfloat16 tensor of rank 2 to 4, innermost dimension first.
struct TensorShape {
  std::vector<uint64_t> dims;     // elements of each dimension
  std::vector<uint64_t> strides;  // in elements, from one index of dims[i + 1] to the next; one fewer than dims
  std::vector<uint32_t> box;      // elements one copy moves in each dimension
};

// What lies outside of the dims is read as zero and never written. Throws BadInput where the copy engine could not take
// it ("CUDA Driver API", cuTensorMapEncodeTiled): base and strides are multiples of 16 bytes, strides below 2^40 bytes,
// dims up to 2^32, box up to 256, the innermost box a multiple of 16 bytes, and 128 bytes where swizzled; and
// EnvironmentError where the driver does not know tensor maps.
TensorMap make_tensor_map(const bfloat16* base, const TensorShape& shape,
                          TensorSwizzle swizzle = TensorSwizzle::k128Bytes);
