#include "common/wire/message.h"

#include <utility>

#include "common/wire/messages/commit.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "tests/catch.h"

using namespace capstan;

TEST_CASE("a header is the message that it was made of and no other", "[message]") {
  const Header header = Ping{Term{3}, Generation{4}};
  REQUIRE(header.Is<Ping>());
  CHECK(header.As<Ping>()->term == Term{3});
  CHECK(header.Get<Ping>().generation == Generation{4});
  CHECK_FALSE(header.Is<Shutdown>());
  CHECK(header.As<Commit>() == nullptr);
}

TEST_CASE("a copy of a header is changed by itself", "[message]") {
  ResetBad bad;
  bad.reason = "first";
  Header header = bad, copy = header;
  copy.Get<ResetBad>().reason = "second";
  CHECK(header.Get<ResetBad>().reason == "first");
  header = copy;
  copy = Ping{};
  CHECK(header.Get<ResetBad>().reason == "second");
  CHECK(copy.Is<Ping>());
}

TEST_CASE("a header that was moved from holds nothing, and takes another message", "[message]") {
  Header header = Commit{};
  const Header moved = std::move(header);
  CHECK(moved.Is<Commit>());
  CHECK_FALSE(header.Is<Commit>());
  const Header copy = header;
  CHECK_FALSE(copy.Is<Commit>());
  header = Shutdown{};
  CHECK(header.Is<Shutdown>());
}
