#include "env_check/gather.hpp"

#include "env_check/child.hpp"
#include "env_check/gather_parts.hpp"
#include "env_check/probe.hpp"

namespace env_check {

Facts gather(const GatherOptions& options) {
  Facts facts;
  // What may take seconds runs beside everything else: asked first, heard last.
  std::optional<DriverQuestion> cuda;
  std::optional<NvmlQuestion> nvml;
  std::optional<Child> python;
  if (options.ask_driver) {
    cuda.emplace();
    nvml.emplace();
  }
  if (const std::vector<std::string> command = python_question(options); !command.empty())
    python.emplace(Child::program(command));
  gather_environment(facts);
  gather_toolkits(facts, options);
  gather_system(facts, options);
  gather_module(facts, options);
  gather_pci(facts, options);
  gather_libraries(facts, options);
  gather_containers(facts, options);
  if (nvml) facts.nvml = nvml->answer(options.driver_limit);
  if (cuda) facts.driver = cuda->answer(options.driver_limit);
  gather_nodes(facts, options);
  if (python) gather_python(facts, python->finish(options.python_limit).output);
  for (const std::string& path : options.binaries) facts.binaries.push_back(gather_binary(path, facts));
  return facts;
}

}  // namespace env_check
