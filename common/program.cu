#include "common/program.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/device.hpp"
#include "common/error.hpp"
#if !ON_GPU
#include "common/simt/executor.hpp"
#endif

std::string machine_text() {
  const DeviceInfo& d = device();
  if (!d.gpu)
    return fmt::format("CPU executor · {} host threads · no GPU used: results and counts, no times",
#if ON_GPU
                       1
#else
                       simt::worker_count()
#endif
    );
  return fmt::format("{} · sm_{} · driver {} · CUDA {} · no TF32", d.name, d.sm, d.driver, d.runtime);
}

std::string machine_json() {
  const DeviceInfo& d = device();
  return nlohmann::json{{"name", d.name},
                        {"sm", d.sm},
                        {"multiprocessors", d.multiprocessors},
                        {"memory_bytes", d.memory_bytes},
                        {"clock_hz", d.clock_hz},
                        {"driver", d.driver},
                        {"cuda", d.runtime}}
      .dump();
}

int run_main(const std::function<int()>& body) {
  try {
    return body();
  } catch (const BadInput& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kBadInput;
  } catch (const EnvironmentError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kEnvironment;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory on the host\n");
    return kEnvironment;
  } catch (const std::length_error&) {  // std::vector says so of a size that no memory could hold
    fmt::print(stderr, "error: out of memory on the host\n");
    return kEnvironment;
  } catch (const std::exception& error) {  // a kernel broke a rule of the machine
    fmt::print(stderr, "error: {}\n", error.what());
    return kCheckFailed;
  }
}
