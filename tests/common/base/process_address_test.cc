// Tests of the address of a process: host and port, or a Unix socket.
#include "common/base/process_address.h"

#include "tests/catch.h"

namespace capstan {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a process is at a host and a port, or at a path from the root", "[common][address]") {
  for (const char* address : {"127.0.0.1:1", "[::1]:65535", "ipc:///a", "ipc:///run/user/1000/job:0/coordinator"}) {
    CAPTURE(address);
    CHECK(IsProcessAddress(address));
    CHECK(ReadProcessAddress("--join", address).value() == address);
  }
  for (const char* other :
       {"", "a", "a:0", "tcp://a", "tcp://a:0", "tcp://tcp://a:1", "tcp://ipc:///a", "http://a:1", "/run/coordinator",
        "ipc://", "ipc://a", "ipc://@a", "ipc://*", "ipc:///", "ipc:///a/", "ipc:///a\nb", "ipc:///a\x1b[31m"}) {
    CAPTURE(other);
    CHECK_FALSE(IsProcessAddress(other));
    const Status status = ReadProcessAddress("--join", other).status();
    CHECK(status.code() == Code::kInvalid);
    CHECK(status.message().find_first_of("\n\x1b") == std::string::npos);
  }
}

TEST_CASE("an address for TCP may have a key, which stays with it", "[common][address][keys]") {
  const std::string key = std::string(32, '0') + std::string(32, 'F'), address = "10.0.0.5:29600#" + key;
  CHECK(IsProcessAddress(address));
  CHECK(ReadProcessAddress("--join", address).value() == address);
  CHECK(KeyInAddress(address) == key);
  CHECK(WithoutKey(address) == "10.0.0.5:29600");
  CHECK(WithKey("10.0.0.5:29600", key) == address);
  CHECK(KeyInAddress(EndpointOf(address)) == key);
  CHECK(AddressOf(EndpointOf(address)) == address);
  CHECK(MachineOf(address) == "10.0.0.5");
  CHECK_FALSE(CanBeExposed(address));
  CHECK(KeyInAddress("10.0.0.5:29600").empty());
  CHECK(WithoutKey("10.0.0.5:29600") == "10.0.0.5:29600");
  CHECK(KeysInAddress("10.0.0.5:29600").empty());
  CHECK(KeysInAddress(address) == std::vector<std::string_view>{key});
  const std::string both = address + "," + std::string(64, 'a');
  CHECK(IsProcessAddress(both));
  CHECK(KeysInAddress(both) == std::vector<std::string_view>{key, both.substr(both.size() - 64)});
  CHECK(WithoutKey(both) == "10.0.0.5:29600");
  CHECK(MachineOf(both) == "10.0.0.5");
  CHECK(IsProcessAddress("ipc:///a#b"));  // of a file's name
  CHECK(KeyInAddress("ipc:///a#b").empty());
  CHECK(WithoutKey("ipc:///a#b") == "ipc:///a#b");
  CHECK(WithKey("ipc:///a", key) == "ipc:///a");
  for (const std::string& other : {std::string(), std::string("abc"), key + "0", key + ",", "," + key, key + ",,",
                                   key + "," + key + "," + key, key.substr(1) + "g"}) {
    CHECK_FALSE(IsProcessAddress("10.0.0.5:29600#" + other));
    CHECK_THAT(ReadProcessAddress("--join", "10.0.0.5:29600#" + other).status().message(),
               Contains("a key, after #, has 64"));
  }
  CHECK(ReadProcessAddress("--join", "tcp://" + address).value() == address);
}

TEST_CASE("a socket's path has as many bytes as the system allows, and not one more", "[common][address]") {
  const std::string longest = "ipc:///" + std::string(kSocketPathBytesMax - 1, 'a');
  CHECK(IsProcessAddress(longest));
  CHECK_FALSE(IsProcessAddress(longest + "a"));
  CHECK_THAT(ReadProcessAddress("--join", longest + "a").status().message(),
             Contains("108 bytes") && Contains("at most 107"));
}

TEST_CASE("an address with a scheme is answered with the one to write", "[common][address]") {
  CHECK(ReadProcessAddress("--coordinator", "http://10.0.0.5:29600/x").status().message() ==
        "--coordinator takes HOST:PORT or ipc:///PATH, not \"http://10.0.0.5:29600/x\"; write 10.0.0.5:29600, without "
        "\"http://\"");
  CHECK_THAT(ReadProcessAddress("--coordinator", "tcp://10.0.0.5").status().message(), Contains("the port is missing"));
  CHECK(ReadProcessAddress("--join", "a").status().message() ==
        "--join takes HOST:PORT or ipc:///PATH, not \"a\": the port is missing");
  CHECK_THAT(ReadProcessAddress("--join", "ipc://run").status().message(), Contains("a path from the root"));
}

TEST_CASE("an address and its endpoint name the same process", "[common][address]") {
  CHECK(EndpointOf("10.0.0.6:1") == "tcp://10.0.0.6:1");
  CHECK(AddressOf("tcp://10.0.0.6:1") == "10.0.0.6:1");
  CHECK(EndpointOf("ipc:///a/b") == "ipc:///a/b");
  CHECK(AddressOf("ipc:///a/b") == "ipc:///a/b");
  CHECK(LocalAddress("/a", "b") == "ipc:///a/b");
  CHECK(SocketPathOf("ipc:///a/b") == "/a/b");
  for (const char* open : {"10.0.0.6:1", "0.0.0.0:1", "*:1", "[fe80::1]:1", "node-7:1"}) CHECK(CanBeExposed(open));
  for (const char* closed : {"127.0.0.1:1", "localhost:1", "[::1]:1", "ipc:///a/b"}) CHECK_FALSE(CanBeExposed(closed));
  CHECK(MachineOf("10.0.0.6:1") == "10.0.0.6");
  CHECK(MachineOf("ipc:///a/b") == "127.0.0.1");
}

}  // namespace
}  // namespace capstan
