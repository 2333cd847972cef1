// The source that test_report.cpp lists; it is read, not compiled.
__global__ void transpose(const float* from,  // [32, 32]
                          float* to) {        // [32, 32]
  __shared__ float tile[32][32];
  const int x = threadIdx.x, y = threadIdx.y;

  tile[y][x] = from[y * 32 + x];
  __syncthreads();
  to[y * 32 + x] = tile[x][y];
}
