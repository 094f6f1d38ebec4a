#include "common/config/suggestion.h"

#include "tests/catch.h"

using capstan::DidYouMean;
using capstan::EditDistance;
using capstan::NearestWord;

TEST_CASE("edits are insertions, deletions, replacements and swaps", "[suggestion]") {
  CHECK(EditDistance("steps", "steps") == 0);
  CHECK(EditDistance("", "abc") == 3);
  CHECK(EditDistance("stalenes", "staleness") == 1);
  CHECK(EditDistance("stpes", "steps") == 1);
  CHECK(EditDistance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest word is at most two edits away, one for short words", "[suggestion]") {
  const std::string_view words[] = {"lr", "steps", "seed", "slots"};
  CHECK(NearestWord("stpes", words) == "steps");
  CHECK(NearestWord("slost", words) == "slots");
  const std::string_view kinds[] = {"adam", "adamw"};
  CHECK(NearestWord("adamW", kinds) == "adamw");
  CHECK(NearestWord("ADAM", kinds) == "adam");
  CHECK(NearestWord("l", words) == "lr");
  CHECK(NearestWord("xyz", words).empty());
  CHECK(NearestWord("batch", words).empty());
  CHECK(NearestWord(std::string(100000, 'a'), words).empty());
  CHECK(DidYouMean("sed", words) == "; did you mean \"seed\"?");
  CHECK(DidYouMean("batch", words).empty());
}
