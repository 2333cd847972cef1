// Every parser of env_check on one input of arbitrary bytes. Must not crash, hang or throw.
#pragma once
#include <string>

namespace env_check {
void fuzz_one(const std::string& input);
}
