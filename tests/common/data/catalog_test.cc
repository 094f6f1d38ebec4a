#include "common/data/catalog.h"

#include <algorithm>

#include "common/base/random.h"
#include "tests/catch.h"

namespace capstan {
namespace {

TensorSpec Tensor(std::string name, std::vector<std::int64_t> shape) {
  return {std::move(name), std::move(shape), {InitKind::kZeros, 0.0F}, true};
}

Catalog Make(const std::vector<std::int64_t>& sizes, std::uint32_t block_elements) {
  std::vector<TensorSpec> tensors;
  for (std::size_t i = 0; i < sizes.size(); ++i) tensors.push_back(Tensor("t" + std::to_string(i), {sizes[i]}));
  Result<Catalog> catalog = Catalog::Create(std::move(tensors), block_elements);
  REQUIRE(catalog.ok());
  return std::move(catalog).value();
}

std::vector<std::uint32_t> BlockSizes(const Catalog& catalog) {
  std::vector<std::uint32_t> sizes;
  for (const Block& block : catalog.blocks()) sizes.push_back(block.count);
  return sizes;
}

Status Refusal(std::vector<TensorSpec> tensors, std::uint32_t block_elements = 8) {
  return Catalog::Create(std::move(tensors), block_elements).status();
}

TEST_CASE("a large tensor is cut into whole blocks and a rest", "[common][catalog]") {
  const Catalog catalog = Make({20, 8}, 8);
  CHECK(BlockSizes(catalog) == std::vector<std::uint32_t>{8, 8, 4, 8});
  CHECK(catalog.first_block(0) == 0);
  CHECK(catalog.last_block(0) == 2);
  CHECK(catalog.first_block(1) == 3);
  CHECK(catalog.flat_offset(1) == 20);
}

TEST_CASE("neighbours under a quarter of a block share one, others never do", "[common][catalog]") {
  CHECK(BlockSizes(Make({3, 3, 3}, 16)) == std::vector<std::uint32_t>{9});
  CHECK(BlockSizes(Make({4, 3, 3}, 16)) == std::vector<std::uint32_t>{4, 6});
  CHECK(BlockSizes(Make({3, 4, 3}, 16)) == std::vector<std::uint32_t>{3, 4, 3});
  CHECK(BlockSizes(Make({16, 1}, 16)) == std::vector<std::uint32_t>{16, 1});
  CHECK(BlockSizes(Make({3, 3, 3, 3, 3, 3}, 16)) == std::vector<std::uint32_t>{15, 3});  // full: a new one
}

TEST_CASE("statistics share no block with weights, and their numbers travel as fp32", "[common][catalog]") {
  std::vector<TensorSpec> tensors{{"a", {1}, {}}, {"b", {1}, {}}, {"mean", {1}, {}}, {"var", {1}, {}}, {"c", {1}, {}}};
  tensors[2].kind = tensors[3].kind = TensorKind::kStatistic;
  const Catalog catalog = Catalog::Create(tensors, 16).value();
  REQUIRE(catalog.blocks().size() == 3);
  CHECK(catalog.blocks()[1].kind == TensorKind::kStatistic);
  CHECK(catalog.blocks()[1].segment_count == 2);
  CHECK(catalog.blocks()[1].EncodingIn(Encoding::kBf16) == Encoding::kFp32);
  CHECK(catalog.blocks()[2].EncodingIn(Encoding::kBf16) == Encoding::kBf16);
  tensors[2].kind = tensors[3].kind = TensorKind::kParameter;
  CHECK(Catalog::Create(tensors, 16).value().hash() != catalog.hash());
}

TEST_CASE("a scalar is a tensor of one element", "[common][catalog]") {
  Result<Catalog> catalog = Catalog::Create({Tensor("scalar", {})}, 8);
  REQUIRE(catalog.ok());
  CHECK(catalog->element_count() == 1);
}

TEST_CASE("segments tile blocks, and blocks tile flat space, for any sizes", "[common][catalog]") {
  RandomStream random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> sizes;
    for (std::uint64_t n = 1 + random.Below(12); n > 0; --n)
      sizes.push_back(static_cast<std::int64_t>(1 + random.Below(40)));
    const auto block_elements = static_cast<std::uint32_t>(1 + random.Below(24));
    const Catalog catalog = Make(sizes, block_elements);
    std::uint64_t flat = 0;
    std::vector<std::uint64_t> seen(sizes.size(), 0);
    for (std::size_t b = 0; b < catalog.blocks().size(); ++b) {
      const Block& block = catalog.blocks()[b];
      REQUIRE(block.flat_offset == flat);
      REQUIRE(block.count <= block_elements);
      std::uint32_t within = 0;
      for (std::uint32_t s = 0; s < block.segment_count; ++s) {
        const Segment& segment = catalog.segments()[block.first_segment + s];
        REQUIRE(segment.block == b);
        REQUIRE(segment.block_offset == within);
        REQUIRE(segment.tensor_offset == seen[segment.tensor]);
        REQUIRE(catalog.flat_offset(segment.tensor) + segment.tensor_offset == flat + within);
        REQUIRE(catalog.first_block(segment.tensor) <= b);
        REQUIRE(catalog.last_block(segment.tensor) >= b);
        within += segment.count;
        seen[segment.tensor] += segment.count;
      }
      REQUIRE(within == block.count);
      flat += block.count;
    }
    REQUIRE(flat == catalog.element_count());
    for (std::size_t i = 0; i < sizes.size(); ++i) REQUIRE(seen[i] == static_cast<std::uint64_t>(sizes[i]));
  }
}

TEST_CASE("a catalog that cannot be is refused, and the tensor is named", "[common][catalog]") {
  CHECK(Refusal({}).code() == Code::kInvalid);
  CHECK(Refusal({Tensor("a", {1})}, 0).code() == Code::kInvalid);
  CHECK(Refusal({Tensor("", {1})}).code() == Code::kInvalid);
  CHECK(Refusal({Tensor(std::string(513, 'x'), {1})}).code() == Code::kInvalid);
  const std::vector<TensorSpec> bad[] = {
      {Tensor("good", {1}), Tensor("bad", {0})},
      {Tensor("good", {1}), Tensor("bad", {3, -1})},
      {Tensor("good", {1}), Tensor("bad", {INT64_MIN})},
      {Tensor("good", {1}), Tensor("bad", {INT64_MAX, INT64_MAX, INT64_MAX})},
      {Tensor("good", {1}), Tensor("bad", {std::int64_t{1} << 21, std::int64_t{1} << 20})},
      {Tensor("good", {1}), Tensor("bad", std::vector<std::int64_t>(9, 1))},
      {Tensor("bad", {1}), Tensor("bad", {1})},
  };
  for (const auto& tensors : bad) {
    const Status status = Refusal(tensors);
    INFO(status.ToString());
    CHECK(status.code() == Code::kInvalid);
    CHECK(status.message().find("\"bad\"") != std::string::npos);
  }
  // Each tensor is small enough, but the two together are not.
  CHECK(Refusal({Tensor("a", {std::int64_t{1} << 40}), Tensor("b", {1})}, kBlockElements).code() == Code::kInvalid);
}

TEST_CASE("the hash sees everything that moves a bit", "[common][catalog]") {
  const std::vector<TensorSpec> base = {Tensor("a", {2, 3}), Tensor("b", {4})};
  const auto hash = [](std::vector<TensorSpec> tensors, std::uint32_t block_elements = 8) {
    return Catalog::Create(std::move(tensors), block_elements).value().hash();
  };
  const std::uint64_t same = hash(base);
  CHECK(hash(base) == same);
  CHECK(hash(base, 16) != same);
  CHECK(hash({base[1], base[0]}) != same);
  const auto changed = [&](auto change) {
    std::vector<TensorSpec> tensors = base;
    change(tensors[0]);
    return hash(tensors);
  };
  CHECK(changed([](TensorSpec& t) { t.name = "c"; }) != same);
  CHECK(changed([](TensorSpec& t) { t.shape = {3, 2}; }) != same);
  CHECK(changed([](TensorSpec& t) { t.shape = {6}; }) != same);
  CHECK(changed([](TensorSpec& t) { t.init.kind = InitKind::kNormal; }) != same);
  CHECK(changed([](TensorSpec& t) { t.init.scale = 0.5F; }) != same);
  CHECK(changed([](TensorSpec& t) { t.decay = false; }) != same);
  CHECK(changed([](TensorSpec& t) { t.kind = TensorKind::kStatistic; }) != same);
}

TEST_CASE("a difference names the first tensor that differs, on both sides", "[common][catalog]") {
  const std::vector<TensorSpec> job = {Tensor("a", {2}), Tensor("b", {4}), Tensor("c", {5})};
  std::vector<TensorSpec> theirs = job;
  CHECK(DescribeDifference(job, theirs).empty());
  theirs[1].shape = {5};
  theirs[2].name = "later";
  std::string text = DescribeDifference(job, theirs);
  INFO(text);
  CHECK(text.find("tensor 1") != std::string::npos);
  CHECK(text.find("b f32[5]") != std::string::npos);
  CHECK(text.find("b f32[4]") != std::string::npos);
  CHECK(text.find("later") == std::string::npos);
  theirs = {job[0], job[1]};
  text = DescribeDifference(job, theirs);
  INFO(text);
  CHECK(text.find("c f32[5]") != std::string::npos);
  CHECK(DescribeDifference(theirs, job).find("c f32[5]") != std::string::npos);
}

TEST_CASE("each block goes to the shard with the fewest bytes so far, in catalog order", "[common][placement]") {
  const Catalog catalog = Make({8, 4, 8, 8}, 8);
  CHECK(PlaceBlocks(catalog, 1) == std::vector<ShardIndex>{0, 0, 0, 0});
  CHECK(PlaceBlocks(catalog, 2) == std::vector<ShardIndex>{0, 1, 1, 0});
  CHECK(PlaceBlocks(catalog, 9) == std::vector<ShardIndex>{0, 1, 2, 3});
}

TEST_CASE("shards differ by at most one block's bytes", "[common][placement]") {
  RandomStream random(2);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::int64_t> sizes;
    for (std::uint64_t n = 1 + random.Below(20); n > 0; --n)
      sizes.push_back(static_cast<std::int64_t>(1 + random.Below(50)));
    const Catalog catalog = Make(sizes, 16);
    for (std::uint32_t shards : {1U, 2U, 3U, 7U}) {
      std::vector<std::uint64_t> load(shards, 0);
      const std::vector<ShardIndex> placement = PlaceBlocks(catalog, shards);
      REQUIRE(placement.size() == catalog.blocks().size());
      for (std::size_t b = 0; b < placement.size(); ++b) load.at(placement[b]) += catalog.blocks()[b].count;
      const auto [least, most] = std::minmax_element(load.begin(), load.end());
      REQUIRE(*most - *least <= 16);
    }
  }
}

}  // namespace
}  // namespace capstan
