#include "common/base/host_port.h"

#include "tests/catch.h"

namespace capstan {
namespace {

TEST_CASE("an address is a host and a port, and nothing else is one", "[common][address]") {
  for (const char* address : {"127.0.0.1:1", "node-7.cluster_a:29600", "[::1]:65535", "[fe80::1%eth0]:9100"}) {
    CAPTURE(address);
    CHECK(IsHostPort(address));
  }
  for (const char* other : {"", ":", "a", "a:", ":1", "a:0", "a:65536", "a:1x", "a: 1", "a b:1", "http://a:1", "a/b:1",
                            "::1:5", "[]:1", "[a]:1", "[::1:5", "a\n:1", "a\x1b[31m:1", "\xC3\xA9:1"}) {
    CAPTURE(other);
    CHECK_FALSE(IsHostPort(other));
  }
  CHECK(IsHostPort(std::string(kHostBytesMax, 'a') + ":1"));
  CHECK_FALSE(IsHostPort(std::string(kHostBytesMax + 1, 'a') + ":1"));
}

TEST_CASE("the address of pages is a host and a port, perhaps with https", "[common][address]") {
  for (const char* good : {"10.0.0.5:90", "https://10.0.0.5:90", "https://[::1]:90"}) CHECK(IsPagesAddress(good));
  for (const char* bad : {"", "https://", "http://10.0.0.5:90", "https://https://a:1", "https://a:1/", "HTTPS://a:1"}) {
    CHECK_FALSE(IsPagesAddress(bad));
  }
  CHECK(WithoutHttps("https://[::1]:90") == "[::1]:90");
  CHECK(WithoutHttps("10.0.0.5:90") == "10.0.0.5:90");
}

TEST_CASE("a host changes and the port stays", "[common][address]") {
  CHECK(WithHost("10.0.0.6", "auto:0") == "10.0.0.6:0");
  CHECK(WithHost("fe80::1", "0.0.0.0:5") == "[fe80::1]:5");
  CHECK(WithHost("[::1]", "a:5") == "[::1]:5");
  CHECK(HostOf("10.0.0.6:5") == "10.0.0.6");
  CHECK(HostOf("[::1]:5") == "[::1]");
}

TEST_CASE("what only this machine reaches, and what stands for all its addresses, is known", "[common][address]") {
  for (const char* host : {"127.0.0.1", "127.64.3.2", "localhost", "[::1]", "::1"}) CHECK(IsLoopback(host));
  for (const char* host : {"10.0.0.1", "0.0.0.0", "[fe80::1]", "node", "127.example.com", "127.0.0.1.example.com",
                           "127.0.0.256", "127.", ""}) {
    CAPTURE(host);
    CHECK_FALSE(IsLoopback(host));
  }
  for (const char* host : {"0.0.0.0", "*", "[::]", "::"}) CHECK(IsWildcard(host));
  CHECK_FALSE(IsWildcard("127.0.0.1"));
}

}  // namespace
}  // namespace capstan
