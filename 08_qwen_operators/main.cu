#include "08_qwen_operators/tables.hpp"

int main(int argc, char** argv) {
  std::vector<Step> parts{operators_table()};
  for (const auto& more : {fused_tables(), linear_tables()}) parts.insert(parts.end(), more.begin(), more.end());
  const int status = run_steps(parts, argc, argv);
  print_accuracy();
  return status;
}
