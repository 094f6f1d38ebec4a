#include "cli/run/address.h"

#include "tests/catch.h"

namespace capstan::cli {
namespace {

TEST_CASE("ports move, hosts stay, and a free port stays free", "[cli]") {
  CHECK(PortOf("10.0.0.1:29600") == 29600);
  CHECK(ShiftPort("10.0.0.1:29600", 2) == "10.0.0.1:29602");
  CHECK(ShiftPort("[::1]:29600", 1) == "[::1]:29601");
  CHECK(ShiftPort("10.0.0.1:0", 2) == "10.0.0.1:0");
}

TEST_CASE("an address without a port, or with one that is none, has no port to move or to choose", "[cli]") {
  for (const char* address : {"10.0.0.1", "10.0.0.1:", "10.0.0.1:99999", "10.0.0.1:-1", "10.0.0.1:5x", "10.0.0.1: 5"}) {
    CAPTURE(address);
    CHECK(PortOf(address) == 0);
    CHECK(ShiftPort(address, 2) == address);
    CHECK(ChoosePort(address) == address);
  }
  for (const char* address : {"10.0.0.1", "localhost", "*", "[::1]"}) {
    const Status status = NumericHost(address).status();
    CHECK(status.code() == Code::kInvalid);
    CHECK(status.message() == "\"" + std::string(address) + "\" has no port; write HOST:PORT");
  }
}

TEST_CASE("a name of this machine becomes a number, an unknown one is named", "[cli]") {
  CHECK(NumericHost("localhost:5").value() == "127.0.0.1:5");
  CHECK(NumericHost("127.0.0.1:5").value() == "127.0.0.1:5");
  CHECK(NumericHost("*:5").value() == "*:5");
  const Status status = NumericHost("no.such.host.invalid:5").status();
  CHECK(status.code() == Code::kInvalid);
  CHECK(status.message().find("no.such.host.invalid:5") != std::string::npos);
}

TEST_CASE("host auto is the address that leads to the coordinator, and another one stays", "[cli]") {
  CHECK(ResolveListen("auto:0", "127.0.0.1:29600").value() == "127.0.0.1:0");
  CHECK(ResolveListen("auto:9100", "localhost:29600").value() == "127.0.0.1:9100");
  CHECK(ResolveListen("auto:9100", "ipc:///run/job/coordinator").value() == "127.0.0.1:9100");
  CHECK(ResolveListen("127.3.2.1:9100", "127.0.0.1:29600").value() == "127.3.2.1:9100");
  const Status status = ResolveListen("auto:0", "no-such-host..invalid:29600").status();
  CHECK(status.code() == Code::kUnreachable);
  CHECK(status.message().find("no-such-host..invalid:29600") != std::string::npos);
}

TEST_CASE("what listens everywhere is reached at the host that others know", "[cli]") {
  CHECK(ReachedAt("127.0.0.1:4000", "0.0.0.0:0", "10.0.0.6") == "10.0.0.6:4000");
  CHECK(ReachedAt("10.0.0.7:4000", "10.0.0.7:0", "10.0.0.6") == "10.0.0.7:4000");
}

TEST_CASE("a port is found, moved and chosen in front of a key", "[cli][address][keys]") {
  const std::string key = "#" + std::string(64, 'a');
  CHECK(PortOf("10.0.0.1:29600" + key) == 29600);
  CHECK(ShiftPort("10.0.0.1:29600" + key, 1) == "10.0.0.1:29601" + key);
  CHECK(ChoosePort("127.0.0.1:29600" + key) == "127.0.0.1:29600" + key);
  const std::string chosen = ChoosePort("127.0.0.1:0" + key);
  CHECK(chosen.ends_with(key));
  CHECK(PortOf(chosen) != 0);
}

TEST_CASE("a key that is empty, and a socket's path, stay as they are where a port is chosen", "[cli][address]") {
  CHECK(ChoosePort("[[#") == "[[#");
  CHECK(PortOf("*:0#:99") == 0);
  CHECK(ChoosePort("10.0.0.1:5#") == "10.0.0.1:5#");
  CHECK(ChoosePort("127.0.0.1:0#").ends_with("#"));
  CHECK(ChoosePort("ipc:///run/job:0") == "ipc:///run/job:0");
}

}  // namespace
}  // namespace capstan::cli
