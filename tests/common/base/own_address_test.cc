// Tests of OwnAddress, the address of this machine on its route to another one, and of CheckOwnAddress.
#include <string>
#include <vector>

#include "common/base/own_address.h"
#include "tests/catch.h"
#include "tests/compared_with_nothing.h"
#include "tests/nonlocal_bind.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;

// A host name with an empty label. The resolver refuses it without asking a server; some servers have an answer for
// every other name.
constexpr const char* kNoHost = "no-such-host..invalid";

TEST_CASE("the way to this machine itself begins at its loopback address", "[common][address]") {
  CHECK(OwnAddress("127.0.0.1:29600").value() == "127.0.0.1");
  CHECK(OwnAddress("ipc:///run/job/coordinator").value() == "127.0.0.1");
  CHECK(OwnAddress("localhost:1").value().find_first_of("0123456789:") == 0);
}

TEST_CASE("a host that nobody knows has no way to it, and is named", "[common][address]") {
  const std::string endpoint = std::string(kNoHost) + ":29600";
  const Result<std::string> none = OwnAddress(endpoint);
  CHECK(none.status().code() == Code::kUnreachable);
  CHECK_THAT(none.status().message(), Contains(endpoint));
}

TEST_CASE("an address of another machine is refused at the start", "[common][address]") {
  CHECK(CheckOwnAddress("127.0.0.1").ok());
  CHECK(CheckOwnAddress("localhost").ok());
  std::vector<std::string> others = {kNoHost, "127.0.0.1:29600"};
  if (testing::BindsAddressesOfOthers()) {
    testing::ComparedWithNothing("an --address of another machine", "ip_nonlocal_bind is set here");
  } else {
    others.push_back("203.0.113.7");
  }
  for (const std::string& other : others) {
    const Status status = CheckOwnAddress(other);
    CAPTURE(other);
    CHECK(status.code() == Code::kInvalid);
    CHECK_THAT(status.message(), Contains("--address " + other));
  }
}

}  // namespace
}  // namespace capstan
