// Which address of this machine others reach it by.
#include "worker/train/own_address.h"
#include "tests/catch.h"

namespace capstan::train {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("the way to this machine itself begins at its loopback address", "[train][address]") {
  CHECK(OwnAddress("127.0.0.1:29600").value() == "127.0.0.1");
  CHECK(OwnAddress("localhost:1").value().find_first_of("0123456789:") == 0);
}

TEST_CASE("a host that nobody knows has no way to it, and the flag that helps is named", "[train][address]") {
  const Result<std::string> none = OwnAddress("no-such-host.invalid:29600");
  CHECK(none.status().code() == Code::kUnreachable);
  CHECK_THAT(none.status().message(), Contains("no-such-host.invalid:29600") && Contains("--address"));
}

TEST_CASE("an address of another machine is refused at the start", "[train][address]") {
  CHECK(CheckOwnAddress("127.0.0.1").ok());
  CHECK(CheckOwnAddress("localhost").ok());
  for (const std::string other : {"203.0.113.7", "no-such-host.invalid", "127.0.0.1:29600"}) {
    const Status status = CheckOwnAddress(other);
    CAPTURE(other);
    CHECK(status.code() == Code::kInvalid);
    CHECK_THAT(status.message(), Contains("--address " + other));
  }
}

}  // namespace
}  // namespace capstan::train
