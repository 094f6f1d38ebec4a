#include "cli/snapshot/gpt2_layout.h"

#include <cstring>

#include "tests/catch.h"

namespace capstan::cli {
namespace {

Catalog SmallCatalog() { return Catalog::Create({{"h.0.attn.c_attn.weight", {3, 1}, {}}}).value(); }

TEST_CASE("a matrix of GPT-2 is transposed in its place", "[cli][gpt2]") {
  SafetensorsFile file;
  file.tensors = {{"transformer.h.0.attn.c_attn.weight", "F32", {2, 3}, 4, 28}};
  const std::vector<float> values = {9, 1, 2, 3, 4, 5, 6};
  file.data.resize(28);
  std::memcpy(file.data.data(), values.data(), 28);
  REQUIRE(AdoptGpt2(SmallCatalog(), "weights", &file).ok());
  CHECK(file.tensors[0].name == "h.0.attn.c_attn.weight");
  CHECK(file.tensors[0].shape == std::vector<std::uint64_t>{3, 2});
  std::vector<float> turned(7);
  std::memcpy(turned.data(), file.data.data(), 28);
  CHECK(turned == std::vector<float>{9, 1, 4, 2, 5, 3, 6});
}

// A loop over the 2^61 rows would take centuries, although they have no elements. If there is one, this test runs into
// its time limit.
TEST_CASE("an empty matrix of more rows than anything has is turned like any other", "[cli][gpt2]") {
  SafetensorsFile file;
  file.tensors = {{"h.0.attn.c_attn.weight", "F32", {std::uint64_t{1} << 61, 0}, 0, 0}};
  REQUIRE(AdoptGpt2(SmallCatalog(), "weights", &file).ok());
  CHECK(file.tensors[0].shape == std::vector<std::uint64_t>{0, std::uint64_t{1} << 61});
}

}  // namespace
}  // namespace capstan::cli
