// The rule for what a request costs, against counters of a real card.
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/catch.hpp"
#include "common/simt/request_cost.hpp"

TEST_CASE("request cost: every pattern counted on hardware") {
  std::ifstream file(HW_REQUESTS);
  REQUIRE(file);
  const auto patterns = nlohmann::json::parse(file).at("patterns");
  REQUIRE(patterns.size() > 100);
  for (const auto& pattern : patterns) {
    simt::WarpRequest request;
    request.bytes = pattern.at("width");
    request.load = pattern.at("op") == "load";
    for (int lane = 0; lane < 32; ++lane) request.address[lane] = pattern.at("offsets").at(lane);
    INFO(pattern.at("name").get<std::string>() << ", " << pattern.at("space") << " " << pattern.at("op"));
    if (pattern.at("space") == "shared")
      CHECK(simt::shared_cost(request).wavefronts == pattern.at("wavefronts").get<int>());
    else
      CHECK(simt::global_sectors(request) == pattern.at("sectors").get<int>());
  }
}

TEST_CASE("request cost: a row is free, a column of 32-float rows costs 32, a padded column 1") {
  const auto cost = [](auto at) { return simt::shared_cost(simt::warp_request(true, 4, at)).wavefronts; };
  CHECK(cost([](int lane) { return 4 * lane; }) == 1);
  CHECK(cost([](int lane) { return 4 * 32 * lane; }) == 32);
  CHECK(cost([](int lane) { return 4 * 33 * lane; }) == 1);
  CHECK(cost([](int) { return 4 * 7; }) == 1);
}

TEST_CASE("request cost: contiguous float4 takes four wavefronts, its least") {
  const auto r = simt::warp_request(true, 16, [](int lane) { return 16 * lane; });
  CHECK(simt::shared_cost(r).wavefronts == 4);
  CHECK(simt::shared_cost(r).least == 4);
}

TEST_CASE("request cost: no active lane, no cost") {
  CHECK(simt::shared_cost(simt::WarpRequest()).wavefronts == 0);
  CHECK(simt::global_sectors(simt::WarpRequest()) == 0);
}
