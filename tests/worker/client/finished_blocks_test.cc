#include "worker/client/finished_blocks.h"

#include "tests/catch.h"

namespace capstan::client {
namespace {

TEST_CASE("a block is final with the last of its tensors, once in a slot", "[client]") {
  std::vector<TensorSpec> specs(3);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    specs[i].name = "t" + std::to_string(i);
    specs[i].shape = {4};
  }
  const Result<Catalog> catalog = Catalog::Create(specs);
  REQUIRE(catalog.ok());
  REQUIRE(catalog->blocks().size() == 1);
  FinishedBlocks blocks;
  std::vector<BlockIndex> finished;
  const auto note = [&](BlockIndex block) { finished.push_back(block); };
  for (int slot = 0; slot < 2; ++slot) {
    finished.clear();
    blocks.Begin(*catalog);
    blocks.Take(*catalog, 2, 2, note);
    blocks.Take(*catalog, 1, 1, note);
    CHECK(finished.empty());
    blocks.Take(*catalog, 0, 0, note);
    blocks.Take(*catalog, 0, 0, note);
    blocks.TakeRest(note);
    CHECK(finished == std::vector<BlockIndex>{0});
  }
  blocks.Begin(*catalog);
  blocks.TakeRest(note);
  CHECK(finished == std::vector<BlockIndex>{0, 0});
}

}  // namespace
}  // namespace capstan::client
