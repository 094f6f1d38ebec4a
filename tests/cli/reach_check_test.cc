#include "cli/run/reach_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/catch.h"

namespace capstan::cli {
namespace {

using Catch::Matchers::Contains;
using Clock = ReachCheck::Clock;

// A free port of this machine. No process answers there until the test listens.
class Port {
 public:
  Port() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    REQUIRE(bind(fd_, reinterpret_cast<const sockaddr*>(&where), size) == 0);
    REQUIRE(getsockname(fd_, reinterpret_cast<sockaddr*>(&where), &size) == 0);
    address = "127.0.0.1:" + std::to_string(ntohs(where.sin_port));
  }
  ~Port() { close(fd_); }
  void Listen() const { REQUIRE(listen(fd_, 4) == 0); }

  std::string address;

 private:
  const int fd_;
};

TEST_CASE("a server that cannot be reached is named once, one that can is not", "[cli][reach]") {
  const Port deaf, open;
  open.Listen();
  ReachCheck check;
  const Clock::time_point now = Clock::now();
  for (int i = 0; i < 3; ++i) {
    check.Try("server 0", deaf.address, now);
    check.Try("server 1", open.address, now);
  }
  const std::vector<std::string> lines = check.Look(now);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Contains("server 0 says that it is reached at " + deaf.address) &&
                           Contains("Connection refused") && Contains("cluster.advertise"));
  CHECK(check.Look(now + 2 * ReachCheck::kPatience).empty());
  check.Try("server 0", open.address, now);  // it came back at another address
  CHECK(check.Look(now + 2 * ReachCheck::kPatience).empty());
}

TEST_CASE("what is no address is not tried, and a host that nobody knows is named", "[cli][reach]") {
  ReachCheck check;
  check.Try("server 0", "nonsense", Clock::now());
  CHECK(check.Look(Clock::now()).empty());
  check.Try("server 0", "no-such-host..invalid:5", Clock::now());
  const std::vector<std::string> lines = check.Look(Clock::now());
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Contains("no-such-host..invalid:5"));
}

TEST_CASE("a server that no socket is left for is named with the reason", "[cli][reach]") {
  const Port open;
  open.Listen();
  ReachCheck check;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 0;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  check.Try("server 0", open.address, Clock::now());
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  const std::vector<std::string> lines = check.Look(Clock::now());
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Contains(open.address) && Contains("Too many open files"));
}

}  // namespace
}  // namespace capstan::cli
