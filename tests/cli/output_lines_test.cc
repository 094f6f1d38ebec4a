#include "cli/launch/output_lines.h"

#include "tests/catch.h"

namespace capstan::cli {
namespace {

using Lines = std::vector<std::string>;

TEST_CASE("output is cut into lines wherever its pieces end", "[cli][output]") {
  OutputLines output;
  CHECK(output.Add("one\ntw") == Lines{"one"});
  CHECK(output.Add("o\n\nthree") == Lines{"two", ""});
  CHECK(output.TakeRest() == "three");
  CHECK(output.TakeRest().empty());
}

TEST_CASE("of a line that is written again and again the newest text counts", "[cli][output]") {
  OutputLines output;
  CHECK(output.Add("\r 10 %\r 20 %").empty());
  CHECK(output.Add("\r100 %\n") == Lines{"100 %"});
  CHECK(output.Add("dos\r\n") == Lines{"dos"});
}

TEST_CASE("a line that never ends is cut", "[cli][output]") {
  OutputLines output;
  const Lines lines = output.Add(std::string(2 * OutputLines::kLineBytesMax + 1, 'x'));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].size() == OutputLines::kLineBytesMax);
  CHECK(output.TakeRest() == "x");
}

}  // namespace
}  // namespace capstan::cli
