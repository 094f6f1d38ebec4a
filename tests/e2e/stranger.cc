// A stranger that speaks the protocol, for tests of whole jobs.
//
//   stranger bad-joins HOST:PORT COUNT   has COUNT Joins and Hellos refused, with texts that no terminal should get
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "common/wire/messages/hello.h"
#include "common/wire/messages/membership.h"
#include "common/wire/zmq_transport.h"

namespace capstan {
namespace {

constexpr int kInFlightMax = 100;  // answers that are awaited, so that no queue is ever full
constexpr auto kPatience = std::chrono::minutes(2);

// Ends of lines, a terminal's commands, and more than a log should have of it.
std::string BadText() {
  return "\x1B]0;owned\x07\x1B[2J\n12:00:00.000 done: all steps are committed\r\xC2\x9B" + std::string(6000, 'A');
}

Header BadMessage(int number) {
  Join join;
  join.worker = "stranger-" + std::to_string(number);
  join.nonce = static_cast<std::uint64_t>(number) + 1;
  Hello hello;
  switch (number % 5) {
    case 0: join.worker = BadText(); return join;
    case 1: join.machine = BadText(); return join;
    case 2: join.numeric_class = BadText(); return join;
    case 3: join.catalog = {{BadText(), {4}, {InitKind::kZeros, 0.0F}}}; return join;
    default:
      hello.shard = 0;
      hello.endpoint = BadText();
      return hello;
  }
}

int SendBadJoins(const std::string& address, int count) {
  const std::unique_ptr<Transport> transport = CreateZmqTransport({});
  const Result<PeerId> coordinator = transport->Connect("tcp://" + address);
  if (!coordinator.ok()) return std::fprintf(stderr, "%s\n", coordinator.status().message().c_str()), EXIT_FAILURE;
  int in_flight = 0;
  for (int sent = 0; sent < count || in_flight > 0;) {
    for (; sent < count && in_flight < kInFlightMax; ++sent, ++in_flight) {
      if (!transport->Send(*coordinator, {BadMessage(sent), {}}).ok()) return EXIT_FAILURE;
    }
    if (transport->Poll(kPatience, [&](PeerId, const Principal&, const Message&) { --in_flight; }) == 0) {
      return std::fprintf(stderr, "%d messages were not answered\n", in_flight), EXIT_FAILURE;
    }
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "bad-joins" && argc == 4) return capstan::SendBadJoins(argv[2], std::atoi(argv[3]));
  std::fprintf(stderr, "usage: stranger bad-joins HOST:PORT COUNT\n");
  return EXIT_FAILURE;
}
