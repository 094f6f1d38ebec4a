#include "server/net/advertised_endpoint.h"

#include "tests/catch.h"

namespace capstan::server {
namespace {

Result<std::string> Advertise(const std::string& host) {
  return AdvertisedEndpoint("tcp://0.0.0.0:5", host, "cluster.listen");
}

TEST_CASE("the advertised host takes the place of the bound one and keeps its port", "[server][endpoint]") {
  CHECK(Advertise("10.1.2.3").value() == "tcp://10.1.2.3:5");
  CHECK(Advertise("localhost").value() == "tcp://localhost:5");
  CHECK(Advertise("::1").value() == "tcp://[::1]:5");
  CHECK(Advertise("[::1]").value() == "tcp://[::1]:5");
  CHECK(AdvertisedEndpoint("tcp://127.0.0.1:5", "", "cluster.listen").value() == "tcp://127.0.0.1:5");
  CHECK(AdvertisedEndpoint("ipc://name", "", "cluster.listen").value() == "ipc://name");
}

TEST_CASE("every address of the machine is none that others can reach", "[server][endpoint]") {
  const Status status = Advertise("").status();
  CHECK(status.code() == Code::kInvalid);
  CHECK(status.message().find("cluster.listen is every address of this machine") != std::string::npos);
}

TEST_CASE("a host to advertise that nobody knows is refused at once and named", "[server][endpoint]") {
  for (const char* host : {"no.such.host.invalid", "10.0.0.1:29600", "tcp://10.0.0.1", "10.0.0.300", "two words"}) {
    const Status status = Advertise(host).status();
    INFO(host);
    CHECK(status.code() == Code::kInvalid);
    CHECK(status.message().find("cluster.advertise = \"" + std::string(host) + "\"") != std::string::npos);
  }
}

}  // namespace
}  // namespace capstan::server
