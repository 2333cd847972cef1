// Hand-made counts in all the forms in which they are told.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "common/catch.hpp"
#include "common/error.hpp"
#include "common/lab/listing.hpp"

using Catch::Matchers::ContainsSubstring;
using simt::LineCounts;
using simt::Space;

namespace {

constexpr const char* kSource = "common/lab/test_kernel.cuh";

LineCounts global(int line, bool load, uint64_t requests, uint64_t sectors) {
  return {kSource, line, Space::global, load, 4, requests, 32 * requests, sectors, requests, 0, 0, 128 * requests};
}
LineCounts shared(int line, bool load, int bytes, uint64_t requests, uint64_t wavefronts, uint64_t least) {
  return {kSource, line,       Space::shared, load,
          bytes,   requests,   32 * requests, 0,
          0,       wavefronts, least,         32 * uint64_t(bytes) * requests};
}

// The transpose of test_kernel.cuh, one block of 32×32: line 7 loads and stores, line 9 does too.
lab::Table transpose() {
  lab::Table table{"Step 03 · transpose", "32×32 · fp32", {}};
  lab::Rung rung;
  rung.name = "03 tile of [32][32]";
  rung.check = "ok  (0% of tol)";
  rung.note = "one tile";
  rung.flop = 1024;
  rung.least_bytes = 8192;
  rung.barriers_per_block = 1;
  rung.kernels = {{"transpose<32, true> ",
                   1,
                   1,
                   1024,
                   1,
                   0,
                   {global(7, true, 32, 128), shared(7, false, 4, 32, 32, 32), global(9, false, 32, 160),
                    shared(9, true, 4, 32, 1024, 32)},
                   {{kSource, 8, false, 1}}}};
  table.rungs.push_back(rung);
  lab::Rung host;
  host.name = "03 loop on the host";
  host.skip = "too <slow> & long";
  table.rungs.push_back(host);
  return table;
}

// Columns that a line of UTF-8 takes.
long columns(const std::string& line) {
  return std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

bool line_with(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex(pattern));
}

// Every tag that is opened is closed in order, and no bare & or < stands in the text.
bool well_formed(const std::string& html) {
  std::vector<std::string> open;
  static const std::regex token(R"(<(/?)(\w+)[^<>]*?(/?)>|<!DOCTYPE html>|&(amp|lt|gt);|[<>&])");
  const std::string body = std::regex_replace(html, std::regex(R"(<style>[^]*?</style>)"), "");
  for (std::sregex_iterator it(body.begin(), body.end(), token), end; it != end; ++it) {
    const std::smatch& m = *it;
    if (m.str().size() == 1) return false;
    if (!m[2].matched || m.str(3) == "/") continue;
    if (m.str(1).empty()) {
      open.push_back(m[2]);
    } else {
      if (open.empty() || open.back() != m[2]) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE("lab: the table says what a request takes, and what the roofline allows on the card") {
  const std::string text = lab::table_text(transpose(), find_card("RTX 3060"));
  // 128 requests; 288 sectors of 32 bytes; 1024 FLOP; 8192 bytes at 360 GB/s are 0.0228 µs, 9216 are 0.0256
  CHECK(line_with(
      text, R"(03 tile of \[32\]\[32\] +ok \(0% of tol\) +128 +1\.0 +0\.001 +0\.0092 +0\.11 +0\.023 mem +0\.026 mem)"));
  CHECK(line_with(text, R"(03 tile of \[32\]\[32\] +32 +4\.00 +32 +5\.00 +32 +32\.00 of 1\.00 +32 +1\.00 of 1\.00)"));
  CHECK_THAT(text, ContainsSubstring("skipped: too <slow> & long"));
  CHECK_THAT(text, ContainsSubstring("one tile"));
  CHECK_THAT(text, ContainsSubstring("RTX 3060 (12.7 TFLOP/s fp32, 360 GB/s)"));
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    CHECK(columns(text.substr(at, end - at)) <= 120);
}

TEST_CASE("lab: a failed rung says so, and a rung without counts has none") {
  lab::Table table = transpose();
  table.rungs[0].kernels.clear();
  table.rungs[0].check = "FAILED 3 wrong, 0 NaN/Inf, worst (0, 1): got 2, want 1";
  const std::string text = lab::table_text(table, find_card("RTX 3060"));
  CHECK(line_with(text, R"(03 tile of \[32\]\[32\] +FAILED +– +1\.0)"));
  CHECK_THAT(text, ContainsSubstring("FAILED 3 wrong, 0 NaN/Inf, worst (0, 1): got 2, want 1"));
  CHECK_THAT(text, !ContainsSubstring("wavefronts"));
}

TEST_CASE("lab: lines that cost extra are those with conflicts and those with more sectors than their width") {
  CHECK_FALSE(lab::costs_extra(global(1, true, 10, 40)));
  CHECK(lab::costs_extra(global(1, true, 10, 41)));
  LineCounts wide = global(1, true, 10, 160);
  CHECK(lab::costs_extra(wide));
  wide.bytes_per_lane = 16;  // 512 bytes a request: 16 sectors
  CHECK_FALSE(lab::costs_extra(wide));
  CHECK_FALSE(lab::costs_extra(shared(1, true, 16, 10, 40, 40)));
  CHECK(lab::costs_extra(shared(1, true, 4, 10, 11, 10)));
}

TEST_CASE("lab: the listing shows counted lines with context, each line once, and leaves the rest out") {
  const lab::Table table = transpose();
  const std::vector<lab::Stretch> stretches = lab::listing(table.rungs[0].kernels[0], 1);
  REQUIRE(stretches.size() == 1);
  CHECK(stretches[0].file == kSource);
  std::vector<int> numbers;
  for (const lab::ListedLine& line : stretches[0].lines) numbers.push_back(line.number);
  CHECK(numbers == std::vector<int>{6, 7, 8, 9, 10});
  CHECK(stretches[0].lines[0].margin.empty());
  CHECK(stretches[0].lines[1].margin.size() == 2);
  REQUIRE(stretches[0].lines[2].margin.size() == 1);
  CHECK(stretches[0].lines[2].margin[0].what == "barrier");
  CHECK_THAT(stretches[0].lines[2].text, ContainsSubstring("__syncthreads();"));

  simt::KernelCounts far = table.rungs[0].kernels[0];
  far.barrier_lines.clear();
  far.lines = {global(2, true, 1, 4), global(9, true, 1, 4), global(9, false, 1, 4)};
  const std::vector<lab::Stretch> two = lab::listing(far, 1);
  REQUIRE(two.size() == 2);
  CHECK(two[0].lines.size() == 3);
  CHECK(two[1].lines.front().number == 8);
  far.lines[0].file = far.lines[1].file = far.lines[2].file = "no/such/file.cuh";
  const std::vector<lab::Stretch> unread = lab::listing(far, 1);
  REQUIRE(unread.size() == 2);
  CHECK(unread[1].lines.size() == 1);
  CHECK(unread[1].lines[0].number == 9);
}

TEST_CASE("lab: in the margin stand requests, access and cost; what costs extra is marked") {
  const std::string text = lab::listing_text(transpose());
  CHECK(line_with(text, R"(\n +32 global ld +4\.00 sectors +7 +tile.*\n +32 shared st +1\.00 wavefronts\n)"));
  CHECK(line_with(text,
                  R"(\n ! +32 shared ld +32\.00 \(1\.00\) wavefronts +9 +to.*\n ! +32 global st +5\.00 sectors\n)"));
  const auto column_of = [&](const std::string& number) {
    return text.find(number) - text.rfind('\n', text.find(number));
  };
  CHECK(column_of(" 7    tile[y][x]") == column_of(" 9    to["));
  CHECK_THAT(text, ContainsSubstring("transpose<32, true>"));
  CHECK_THAT(text, ContainsSubstring("1 launch · 1 block of 1024 threads · 1 barrier a block"));
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    CHECK(columns(text.substr(at, end - at)) <= 120);
  CHECK(lab::listing_text({"no counts", "1", {{}}}).empty());
}

TEST_CASE("lab: in words, each access has its cost, its line and what would do") {
  const std::string text = lab::told(transpose().rungs[0].kernels);
  INFO(text);
  CHECK_THAT(text, ContainsSubstring("1 barrier a block\n common/lab/test_kernel.cuh\n"));
  CHECK_THAT(text, ContainsSubstring(
                       "\n  32.00 wavefronts per request at line 9: 4-byte loads from shared memory; 1.00 would do\n"));
  CHECK_THAT(text, ContainsSubstring("\n  1.00 wavefronts per request at line 7: 4-byte stores to shared memory\n"));
  CHECK_THAT(text, ContainsSubstring("\n  5.00 sectors per request at line 9: 4-byte stores to global memory\n"));
}

TEST_CASE("lab: the page is well formed, needs nothing from elsewhere and knows light and dark") {
  const std::string html = lab::listing_html({transpose()}, find_card("H200"));
  CHECK(well_formed(html));
  CHECK_FALSE(well_formed("<p>a<b</p>"));
  CHECK_FALSE(well_formed("<p><pre></p></pre>"));
  for (const char* outside : {"http", "src=", "href=", "url(", "@import", "<script"})
    CHECK_THAT(html, !ContainsSubstring(outside));
  CHECK_THAT(html, ContainsSubstring("prefers-color-scheme: dark"));
  CHECK_THAT(html, ContainsSubstring("transpose&lt;32, true&gt;"));
  CHECK_THAT(html, ContainsSubstring("too &lt;slow&gt; &amp; long"));
  CHECK(line_with(html,
                  R"(<tr class="mark"><td class="count">32</td><td>shared ld</td><td class="cost">32\.00 \(1\.00\))"));
  CHECK(line_with(html, R"(<tr class="line"><td class="count">32</td><td>global ld</td>)"));
  CHECK(line_with(html, R"(<td class="count">1</td><td>barrier</td>.*__syncthreads\(\);)"));
}

TEST_CASE("lab: JSON has the sums of a rung, of each kernel, and every line") {
  const nlohmann::json j = lab::counts_json(transpose().rungs[0]);
  CHECK(j["barriers_per_block"] == 1.0);
  CHECK(j["global"]["load"] == nlohmann::json{{"requests", 32}, {"bytes", 4096}, {"sectors", 128}, {"l1_lines", 32}});
  CHECK(j["shared"]["load"]["wavefronts"] == 1024);
  CHECK(j["shared"]["load"]["least_wavefronts"] == 32);
  REQUIRE(j["kernels"].size() == 1);
  const nlohmann::json& kernel = j["kernels"][0];
  CHECK(kernel["launches"] == 1);
  CHECK(kernel["global"]["store"]["sectors"] == 160);
  CHECK_FALSE(kernel.contains("flops"));
  REQUIRE(kernel["lines"].size() == 4);
  CHECK(kernel["lines"][3]["file"] == kSource);
  CHECK(kernel["lines"][3]["space"] == "shared");
  CHECK(kernel["barrier_lines"][0] == nlohmann::json{{"file", kSource}, {"line", 8}, {"of_warp", false}, {"count", 1}});
}

TEST_CASE("lab: cards have a name of their own, a source, and a peak that their clock and lanes give") {
  REQUIRE(cards().size() >= 25);
  for (const Card& card : cards()) {
    CAPTURE(card.name);
    CHECK(&find_card(card.name) == &card);
    CHECK_FALSE(card.source.empty());
    const int lanes = card.sm == 75 || card.sm == 80 ? 64 : 128;  // FMA lanes of one multiprocessor
    CHECK(card.fp32_flops == Approx(2.0 * lanes * card.multiprocessors * card.boost_hz).epsilon(0.01));
    CHECK(card.bytes_per_second > 1e11);
    CHECK(card.bytes_per_second < 1e13);
    CHECK_THAT(cards_text(), ContainsSubstring(card.name));
  }
  CHECK(find_card("NVIDIA GeForce rtx 3060").name == kDefaultCard);
  CHECK_THROWS_WITH(find_card("RTX 9999"), ContainsSubstring("RTX 9999") && ContainsSubstring("RTX 4060 Ti"));
  CHECK_THROWS_AS(find_card(""), BadInput);
}

TEST_CASE("lab: the roofline names the ceiling that binds") {
  const Card card{"", 0, 0, 0, 10e12, 1e12, ""};
  CHECK(roofline(card, 10e12, 2e12).seconds == Approx(2));
  CHECK(roofline(card, 10e12, 2e12).memory);
  CHECK(roofline(card, 30e12, 2e12).seconds == Approx(3));
  CHECK_FALSE(roofline(card, 30e12, 2e12).memory);
}

TEST_CASE("lab: the lesson's example is the file that is tested") {
  const auto text = [](const std::string& path) {
    std::ifstream file(path);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const std::string example = text(LAB_FOLDER "/example.cuh");
  CHECK(std::count(example.begin(), example.end(), '\n') <= 10);
  CHECK_THAT(text(LAB_FOLDER "/../simt/LAB.md"), ContainsSubstring("```cpp\n" + example + "```"));
}
