#include "common/base/backoff.h"

#include "tests/catch.h"

namespace capstan {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("the first request is due at once, the next ones after 100 ms doubling to 5 s, with a quarter of jitter",
          "[common][backoff]") {
  Backoff backoff(3);
  Instant now = seconds(50), wait = milliseconds(100);
  REQUIRE(backoff.Due(now));
  for (int i = 0; i < 12; ++i) {
    backoff.Sent(now);
    INFO("request " << i);
    CHECK(!backoff.Due(now + wait - Instant(1)));
    CHECK(backoff.Due(now + wait + wait / 4));
    CHECK(backoff.next() >= now + wait);
    now = backoff.next();
    wait = std::min<Instant>(wait * 2, seconds(5));
  }
  CHECK(wait == seconds(5));
}

TEST_CASE("progress starts the waits again", "[common][backoff]") {
  Backoff backoff;
  for (int i = 0; i < 8; ++i) backoff.Sent(seconds(10));
  REQUIRE(!backoff.Due(seconds(14)));
  backoff.Restart();
  CHECK(backoff.Due(Instant{}));
  backoff.Sent(seconds(14));
  CHECK(backoff.Due(seconds(14) + milliseconds(125)));
}

TEST_CASE("requesters of one key wait alike, those of others do not", "[common][backoff]") {
  Backoff a(1), same(1), other(2);
  int equal = 0;
  for (int i = 0; i < 8; ++i) {
    a.Sent({});
    same.Sent({});
    other.Sent({});
    CHECK(a.next() == same.next());
    equal += a.next() == other.next() ? 1 : 0;
  }
  CHECK(equal < 8);
}

TEST_CASE("a first wait above the longest one stays as it is", "[common][backoff]") {
  Backoff backoff(0, seconds(20));
  for (int i = 0; i < 3; ++i) {
    backoff.Sent({});
    CHECK(!backoff.Due(seconds(20) - Instant(1)));
    CHECK(backoff.Due(seconds(25)));
  }
}

}  // namespace
}  // namespace capstan
