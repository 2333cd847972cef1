#include "common/catch.hpp"
#include "common/error.hpp"
#include "common/shape.hpp"

TEST_CASE("--shape: three numbers") {
  const Shape shape = parse_shape("4096x1x2000000000", "MxNxK");
  CHECK(shape.dims == std::vector<int>{4096, 1, kMostSize});
  CHECK(shape.text() == "4096×1×2000000000");
}
TEST_CASE("--shape: what is not a shape is refused in one line") {
  for (const char* text : {"0x1x1", "axb", "", "1", "1x2", "1x2x3x4", "-1x2x3", "1x2x", "x1x2", "1.5x2x3",
                           "1x2x2000000001", "1x2x99999999999999999999", " 1x2x3", "0x10x1x1"}) {
    INFO(text);
    try {
      parse_shape(text, "MxNxK");
      FAIL("accepted");
    } catch (const BadInput& error) {
      const std::string message = error.what();
      CHECK(message.find('\n') == std::string::npos);
      CHECK(message.find(text) != std::string::npos);
    }
  }
}
