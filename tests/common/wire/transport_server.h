// Server: a transport that listens, an honest client of it, and a check that the one still serves the other.
#pragma once

#include <memory>
#include <string>

#include "common/wire/messages/error.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/zmq_transport.h"
#include "tests/common/wire/transport_tools.h"

namespace capstan::testing {

struct Server {
  explicit Server(const TransportOptions& options = {})
      : transport(CreateZmqTransport(options, &counters)),
        client(CreateZmqTransport({})),
        endpoint(*transport->Bind("tcp://127.0.0.1:0")),
        to_server(*client->Connect(endpoint)) {}

  void CheckServes() {
    Recorder requests, answers;
    REQUIRE(client->Send(to_server, {Committed{42, {}, {}, {}}, MakePayload(10000, 1)}).ok());
    RunUntil({{transport.get(), &requests}},
             [&] { return !requests.messages.empty() && requests.messages.back().message.header.Is<Committed>(); });
    REQUIRE(transport->Send(requests.messages.back().from, {Ping{}, {}}).ok());
    RunUntil({{client.get(), &answers}}, [&] { return !answers.messages.empty(); });
  }
  void PollUntil(const std::function<bool()>& done) { RunUntil({{transport.get(), &received}}, done); }

  TransportCounters counters;
  std::unique_ptr<Transport> transport, client;
  std::string endpoint;
  PeerId to_server;
  Recorder received;
};

}  // namespace capstan::testing
