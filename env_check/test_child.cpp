// Children with a time limit: what they write, how they end, and that none holds us up.
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "env_check/child.hpp"
#include "env_check/test_harness.hpp"

using namespace env_check;

TEST_CASE("env_check child: output, exit status, crash, time limit") {
  using namespace std::chrono_literals;
  const auto said = Child([](int out) { CHECK(write(out, "hello", 5) == 5); }).finish(5s);
  CHECK(said.output == "hello");
  CHECK(said.exit_code == 0);
  CHECK(Child([](int) { abort(); }).finish(5s).crashed);
  CHECK(Child([](int) { throw 1; }).finish(5s).exit_code == 70);
  CHECK(Child::program({"/nonexistent"}).finish(5s).exit_code == 127);
  CHECK(output_of({"/bin/echo", "a b"}, 5s) == "a b\n");
  CHECK(output_of({"/bin/false"}, 5s).empty());
  CHECK(Child::program({"/bin/sh", "-c", "echo $ENV_CHECK_X"}, false, {"ENV_CHECK_X=7"}).finish(5s).output == "7\n");
  const auto start = std::chrono::steady_clock::now();
  const auto slow = Child([](int out) {
                      if (write(out, "before", 6) != 6) _exit(1);
                      sleep(60);
                    }).finish(200ms);
  CHECK(slow.timed_out);
  CHECK(slow.output == "before");
  // A child that closes its output and lives on must not hold us up either, nor one that never stops writing.
  CHECK(Child([](int out) {
          close(out);
          sleep(60);
        })
            .finish(5s)
            .timed_out);
  CHECK(Child::program({"/bin/sh", "-c", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"})
            .finish(20s)
            .timed_out);
  CHECK(std::chrono::steady_clock::now() - start < 15s);
}
