#include "worker/client/finished_blocks.h"

#include "tests/catch.h"

namespace capstan::client {
namespace {

// Returns a catalog of three tensors that share one block.
Catalog OneBlock() {
  std::vector<TensorSpec> specs(3);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    specs[i].name = "t" + std::to_string(i);
    specs[i].shape = {4};
  }
  Catalog catalog = Catalog::Create(specs).value();
  REQUIRE(catalog.blocks().size() == 1);
  return catalog;
}

TEST_CASE("a block is final with the last of its tensors, once in a slot", "[client]") {
  const Catalog catalog = OneBlock();
  FinishedBlocks blocks;
  std::vector<BlockIndex> finished;
  const auto note = [&](BlockIndex block) { finished.push_back(block); };
  for (int slot = 0; slot < 2; ++slot) {
    finished.clear();
    blocks.Begin(catalog);
    REQUIRE(blocks.Take(catalog, 2, 2, note).ok());
    REQUIRE(blocks.Take(catalog, 1, 1, note).ok());
    CHECK(finished.empty());
    REQUIRE(blocks.Take(catalog, 0, 0, note).ok());
    blocks.TakeRest(note);
    CHECK(finished == std::vector<BlockIndex>{0});
  }
  blocks.Begin(catalog);
  blocks.TakeRest(note);
  CHECK(finished == std::vector<BlockIndex>{0, 0});
}

TEST_CASE("blocks of a large tensor are final as its elements are, from its end", "[client]") {
  std::vector<TensorSpec> specs(2);
  specs[0].name = "large";
  specs[0].shape = {20};
  specs[1].name = "other";
  specs[1].shape = {8};
  const Catalog catalog = Catalog::Create(specs, 8).value();
  REQUIRE(catalog.blocks().size() == 4);
  FinishedBlocks blocks;
  std::vector<BlockIndex> finished;
  const auto note = [&](BlockIndex block) { finished.push_back(block); };
  for (int slot = 0; slot < 2; ++slot) {
    finished.clear();
    blocks.Begin(catalog);
    REQUIRE(blocks.TakeFrom(catalog, 0, 17, note).ok());
    CHECK(finished.empty());
    REQUIRE(blocks.TakeFrom(catalog, 0, 9, note).ok());
    CHECK(finished == std::vector<BlockIndex>{2});
    REQUIRE(blocks.TakeFrom(catalog, 0, 8, note).ok());
    CHECK(finished == std::vector<BlockIndex>{2, 1});
    for (const std::uint64_t element : {8U, 12U}) {
      const Status twice = blocks.TakeFrom(catalog, 0, element, note);
      CHECK(twice.code() == Code::kInvalid);
      CHECK_THAT(twice.message(), Catch::Contains("\"large\""));
    }
    REQUIRE(blocks.Take(catalog, 0, 1, note).ok());
    CHECK(finished == std::vector<BlockIndex>{2, 1, 3, 0});
    CHECK(blocks.TakeFrom(catalog, 0, 0, note).code() == Code::kInvalid);
    CHECK(blocks.Take(catalog, 0, 0, note).code() == Code::kInvalid);
    blocks.TakeRest(note);
    CHECK(finished.size() == 4);
  }
  finished.clear();
  blocks.Begin(catalog);
  REQUIRE(blocks.TakeFrom(catalog, 0, 8, note).ok());
  blocks.TakeRest(note);
  CHECK(finished == std::vector<BlockIndex>{2, 1, 3, 0});
}

TEST_CASE("a tensor that is named twice in a slot is invalid, and finishes nothing", "[client]") {
  const Catalog catalog = OneBlock();
  FinishedBlocks blocks;
  std::vector<BlockIndex> finished;
  const auto note = [&](BlockIndex block) { finished.push_back(block); };
  blocks.Begin(catalog);
  REQUIRE(blocks.Take(catalog, 2, 2, note).ok());
  for (TensorIndex first : {2U, 1U, 0U}) {
    const Status twice = blocks.Take(catalog, first, 2, note);
    CHECK(twice.code() == Code::kInvalid);
    CHECK_THAT(twice.message(), Catch::Contains("\"t2\""));
  }
  CHECK(finished.empty());
  REQUIRE(blocks.Take(catalog, 0, 1, note).ok());
  CHECK(finished == std::vector<BlockIndex>{0});
  blocks.Begin(catalog);  // in the next slot the tensors may be named again
  CHECK(blocks.Take(catalog, 0, 2, note).ok());
}

}  // namespace
}  // namespace capstan::client
