// 08 · the peer: cuBLAS for bfloat16 linear layers
#pragma once
#include "common/device.hpp"

// y[M, N] = x[M, K] W[N, K]ᵀ, bfloat16 in, float sums; Out is float or bfloat16.
template <class Out>
using LinearPeer = void (*)(Stream&, const bfloat16* x, const bfloat16* W, Out* y, int M, int N, int K);

// Null where the program was built without cuBLAS or runs on the executor.
LinearPeer<float> cublas_linear_float();
LinearPeer<bfloat16> cublas_linear_bf16();
