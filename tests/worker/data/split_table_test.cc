#include "worker/data/split_table.h"

#include <set>

#include "tests/catch.h"

using namespace capstan;
using namespace capstan::train;
using Catch::Matchers::Contains;

TEST_CASE("every sample is in one split, about the wanted fraction held out", "[split]") {
  const auto table = SplitTable::Create(10000, 0.2, "data");
  REQUIRE(table.ok());
  CHECK(table->count(Split::kValidation) > 1800);
  CHECK(table->count(Split::kValidation) < 2200);
  std::set<std::uint64_t> all;
  for (Split split : {Split::kTraining, Split::kValidation}) {
    for (std::uint64_t i = 0; i < table->count(split); ++i) all.insert(table->Locate(split, i));
  }
  CHECK(all.size() == 10000);
  CHECK(*all.rbegin() == 9999);
}

TEST_CASE("a larger fraction holds out the same samples and more", "[split]") {
  const auto few = SplitTable::Create(1000, 0.1, "data"), many = SplitTable::Create(1000, 0.3, "data");
  REQUIRE(few.ok());
  REQUIRE(many.ok());
  std::set<std::uint64_t> held_out;
  for (std::uint64_t i = 0; i < many->count(Split::kValidation); ++i)
    held_out.insert(many->Locate(Split::kValidation, i));
  for (std::uint64_t i = 0; i < few->count(Split::kValidation); ++i) {
    CHECK(held_out.count(few->Locate(Split::kValidation, i)) == 1);
  }
}

TEST_CASE("nothing is held out when nothing is asked for", "[split]") {
  const auto table = SplitTable::Create(5, 0, "data");
  REQUIRE(table.ok());
  CHECK(table->count(Split::kTraining) == 5);
  CHECK(table->count(Split::kValidation) == 0);
}

TEST_CASE("a split that would be empty is refused", "[split]") {
  const auto none_held_out = SplitTable::Create(3, 0.001, "my.csv");
  REQUIRE_FALSE(none_held_out.ok());
  CHECK_THAT(none_held_out.status().message(), Contains("my.csv: 3 samples") && Contains("none to hold out"));
  const auto none_to_train = SplitTable::Create(3, 0.99999, "my.csv");
  REQUIRE_FALSE(none_to_train.ok());
  CHECK_THAT(none_to_train.status().message(), Contains("none to train on"));
}
