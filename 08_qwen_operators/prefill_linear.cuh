// 08 · the linear layers of prefill, by mma.sync or, where that is asked for, by wgmma
#pragma once
#include "08_qwen_operators/linear_mma.cuh"
#include "08_qwen_operators/linear_sm90.cuh"

// Each function is that of linear_mma.cuh. wgmma is used where the card has it, the copy engine takes the matrices, and
// linear_estimate finds its tiles no dearer; the sums are the same but for the order in which they are added.
struct PrefillLinear {
  bool wgmma = false;

  template <class Out>
  void linear(Stream& stream, const bfloat16* x, const bfloat16* W, Out* y, int M, int N, int K, const bfloat16* bias,
              bool pdl) const {
    const LinearArguments<Out> p{x, W, bias, y, M, N, K, false};
    const LinearPlan plan = linear_sm90_plan(M, N, K);
    if (takes(p, plan, 1))
      launch_linear_sm90_plan(stream, p, plan, pdl);
    else
      ::linear(stream, x, W, y, M, N, K, bias, pdl);
  }
  void swiglu(Stream& stream, const bfloat16* x, const bfloat16* W, bfloat16* y, bfloat16* gate_up, int M, int columns,
              int K, bool pdl) const {
    const LinearArguments<bfloat16> p{x, W, nullptr, y, M, 2 * columns, K, false};
    const LinearPlan plan = linear_sm90_plan<LinearEnd::kSwiglu>(M, 2 * columns, K);
    if (takes<LinearEnd::kSwiglu>(p, plan, 1))
      launch_linear_sm90_plan<LinearEnd::kSwiglu>(stream, p, plan, pdl);
    else
      linear_swiglu(stream, x, W, y, gate_up, M, columns, K, pdl);
  }
  // Returns how many partial sums there are; `partial` has room for most_pieces(M, N, K) of them.
  int partials(Stream& stream, const bfloat16* x, const bfloat16* W, float* partial, int M, int N, int K,
               bool pdl) const {
    const LinearArguments<float> p{x, W, nullptr, partial, M, N, K, false};
    const LinearPlan plan = linear_sm90_plan(M, N, K, kMostLinearSplit);
    if (takes(p, plan, kMostLinearSplit)) {
      launch_linear_sm90_plan(stream, p, plan, pdl);
      return plan.split;
    }
    linear_partials(stream, x, W, partial, M, N, K, pdl);
    return linear_split(M, N, K);
  }
  int most_pieces(int M, int N, int K) const {
    return std::max(linear_split(M, N, K), wgmma ? linear_sm90_plan(M, N, K, kMostLinearSplit).split : 1);
  }

 private:
  template <LinearEnd END = LinearEnd::kStore, class Out>
  bool takes(const LinearArguments<Out>& p, const LinearPlan& plan, int most_split) const {
    return wgmma && linear_sm90_fits<END>(p) && plan.clocks <= linear_plan(p.M, p.N, p.K, most_split).clocks;
  }
};
