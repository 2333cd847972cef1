__global__ void reverse(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[n - 1 - i];
}
void run(Lab& lab) {
  const auto x = lab.random(lab.n);
  DeviceBuffer<float> y(lab.n);
  launch(reverse, ceil_div(lab.n, 256), 256, lab.how(), x.data(), y.data(), lab.n);
  lab.expect(y, [in = x.to_host()](size_t i) { return in[in.size() - 1 - i]; });
}
