// Tests of which role may send which message: every cell, against a table that is written in another way than the
// code's.
#include "common/wire/permissions.h"

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "tests/catch.h"

namespace capstan {
namespace {

constexpr std::array kReceivers = {Receiver::kCoordinator, Receiver::kShard, Receiver::kWorker, Receiver::kReader};
constexpr std::array kReceiverNames = {"coordinator", "shard", "worker", "reader"};
constexpr std::array<Role, kRoles> kEveryRole = {Role::kAnyone, Role::kThisUser, Role::kCoordinator, Role::kServer,
                                                 Role::kWorker, Role::kReader,   Role::kAdmin};

// The allowed senders of one kind of message, for each receiver in the order of kReceivers: C a coordinator, S a
// server, W a worker, R a reader, A an administrator; "-" nobody.
struct Cells {
  std::string name;
  Header header;
  std::array<std::string, 4> senders;
};

template <class T>
Cells Row(const char* name, std::array<std::string, 4> senders, T message = {}) {
  return {name, Header(std::move(message)), std::move(senders)};
}

Join JoinWithCatalog() {
  Join join;
  join.catalog.resize(1);
  return join;
}

template <class T>
T OfSession() {
  T message;
  message.session = SessionId{7};
  return message;
}

std::vector<Cells> Table() {
  return {
      // message, to: coordinator, shard, worker, reader
      Row<Ping>("Ping", {"-", "C", "-", "-"}),
      Row<Reset>("Reset", {"-", "C", "-", "-"}),
      Row<Commit>("Commit", {"-", "C", "-", "-"}),
      Row<Redo>("Redo", {"-", "C", "-", "-"}),
      Row<ClockUpdate>("ClockUpdate", {"-", "C", "-", "-"}),
      Row<Pin>("Pin", {"-", "C", "-", "-"}),
      Row<RetainedSnapshots>("RetainedSnapshots", {"-", "C", "-", "-"}),
      Row<LiveSessions>("LiveSessions", {"-", "C", "-", "-"}),
      Row<Shutdown>("Shutdown", {"-", "C", "-", "-"}),
      Row<Prepared>("Prepared", {"S", "-", "-", "-"}),
      Row<Committed>("Committed", {"S", "-", "-", "-"}),
      Row<Hello>("Hello", {"S", "-", "-", "-"}),
      Row<ResetDone>("ResetDone", {"S", "-", "-", "-"}),
      Row<ResetBad>("ResetBad", {"S", "-", "-", "-"}),
      Row<Progress>("Progress", {"S", "-", "-", "-"}),
      Row<SnapshotDone>("SnapshotDone", {"S", "-", "-", "-"}),
      Row<Disagreement>("Disagreement", {"S", "-", "-", "-"}),
      Row<Join>("Join for the job file", {"SWRA", "-", "-", "-"}),
      Row<Join>("Join with a catalog", {"W", "-", "-", "-"}, JoinWithCatalog()),
      Row<Heartbeat>("Heartbeat of no session", {"WRA", "-", "-", "-"}),
      Row<Heartbeat>("Heartbeat of a session", {"W", "-", "-", "-"}, OfSession<Heartbeat>()),
      Row<Leave>("Leave of no session", {"WRA", "-", "-", "-"}),
      Row<Leave>("Leave of a session", {"W", "-", "-", "-"}, OfSession<Leave>()),
      Row<View>("View", {"-", "-", "C", "C"}),
      Row<Push>("Push", {"-", "W", "-", "-"}),
      Row<EndSlot>("EndSlot", {"-", "W", "-", "-"}),
      Row<UploadBlock>("UploadBlock", {"-", "W", "-", "-"}),
      Row<UploadAck>("UploadAck", {"-", "-", "S", "-"}),
      Row<CoverageQuery>("CoverageQuery", {"-", "CWRA", "-", "-"}),
      Row<Pull>("Pull", {"-", "CWRA", "-", "-"}),
      Row<Staged>("Staged", {"S", "-", "S", "S"}),
      Row<Weights>("Weights", {"S", "-", "S", "S"}),
      Row<Published>("Published", {"S", "-", "S", "S"}),
      Row<Fetch>("Fetch", {"-", "S", "-", "-"}),
      Row<Fetched>("Fetched", {"-", "S", "-", "-"}),
      // Workers send these to each other over other connections.
      Row<MeshPiece>("MeshPiece", {"-", "-", "-", "-"}),
      Row<MeshGrant>("MeshGrant", {"-", "-", "-", "-"}),
      Row<MeshControl>("MeshControl", {"-", "-", "-", "-"}),
      Row<TeamAsk>("TeamAsk", {"W", "-", "-", "-"}),
      Row<TeamGive>("TeamGive", {"W", "-", "-", "-"}),
      Row<TeamState>("TeamState", {"-", "-", "C", "-"}),
      Row<TeamPiece>("TeamPiece", {"-", "-", "C", "-"}),
      Row<Error>("Error", {"SWRA", "CSWRA", "CS", "CS"}),
  };
}

// Whether the cell allows the role. A sender without a key has any of them.
bool Allows(const std::string& cell, Role role) {
  static const std::map<Role, char> kLetters = {
      {Role::kCoordinator, 'C'}, {Role::kServer, 'S'}, {Role::kWorker, 'W'}, {Role::kReader, 'R'}, {Role::kAdmin, 'A'}};
  const auto letter = kLetters.find(role);
  return letter == kLetters.end() ? cell != "-" : cell.find(letter->second) != cell.npos;
}

TEST_CASE("each role may send what the table says to each receiver, and nothing else", "[wire][permissions]") {
  for (const Cells& row : Table()) {
    for (std::size_t i = 0; i < kReceivers.size(); ++i) {
      for (const Role role : kEveryRole) {
        INFO(row.name << " to a " << kReceiverNames[i] << " from role " << static_cast<int>(role));
        CHECK(MaySend({role, ""}, row.header, kReceivers[i]) == Allows(row.senders[i], role));
      }
    }
  }
}

TEST_CASE("a worker whose key is for one name joins only under that name", "[wire][permissions]") {
  Join join = JoinWithCatalog();
  join.worker = "w1";
  CHECK(MaySend({Role::kWorker, "w1"}, Header(join), Receiver::kCoordinator));
  CHECK(MaySend({Role::kWorker, ""}, Header(join), Receiver::kCoordinator));
  CHECK_FALSE(MaySend({Role::kWorker, "w2"}, Header(join), Receiver::kCoordinator));
  CHECK(MaySend({Role::kWorker, "w2"}, Header(Push{}), Receiver::kShard));
  CHECK(MaySend({Role::kWorker, "w2"}, Header(Join{}), Receiver::kCoordinator));  // it only asks for the job file
}

// Returns every message in which a server says for which shard it speaks.
template <class... Ts>
std::vector<Header> SpokenFor(ShardIndex shard) {
  std::vector<Header> headers;
  const auto add = [&](auto message) {
    message.shard = shard;
    headers.emplace_back(std::move(message));
  };
  (add(Ts{}), ...);
  return headers;
}

TEST_CASE("a server whose key is for one number speaks only for that server's shards", "[wire][permissions]") {
  constexpr std::uint32_t kPerServer = 2;
  for (const ShardIndex shard : {0U, 1U, 2U, 3U, 4U}) {
    for (const Header& header :
         SpokenFor<Hello, ResetDone, ResetBad, Prepared, Committed, Progress, SnapshotDone, Disagreement>(shard)) {
      INFO("shard " << shard << ", message " << header.any().index());
      CHECK(MaySend({Role::kServer, "1"}, header, Receiver::kCoordinator, kPerServer) == (shard / kPerServer == 1));
      CHECK(MaySend({Role::kServer, ""}, header, Receiver::kCoordinator, kPerServer));
    }
  }
  CHECK(MaySend({Role::kServer, "1"}, Header(Join{}), Receiver::kCoordinator, kPerServer));
  CHECK(MaySend({Role::kServer, "1"}, Header(Fetch{}), Receiver::kShard, kPerServer));
}

TEST_CASE("a message that is refused is told in words", "[wire][permissions]") {
  Join join = JoinWithCatalog();
  join.worker = "w\n2";
  CHECK(WhatItSaid({Role::kServer, "1"}, SpokenFor<Hello>(3).front()) == "speaks for shard 3");
  CHECK(WhatItSaid({Role::kWorker, "w1"}, Header(join)) == "joins as \"w\\x0A2\"");
  CHECK(WhatItSaid({Role::kReader, ""}, SpokenFor<Hello>(3).front()) == "sends what its role may not send");
}

TEST_CASE("a worker whose key has no name does not take one that belongs to another key", "[wire][permissions]") {
  Principal sender{Role::kWorker, ""};
  sender.reserved_names = std::make_shared<const std::set<std::string>>(std::set<std::string>{"w1"});
  Join join = JoinWithCatalog();
  join.worker = "w1";
  CHECK_FALSE(MaySend(sender, Header(join), Receiver::kCoordinator));
  CHECK(WhatItSaid(sender, Header(join)) == "joins as \"w1\", and that name belongs to another key");
  join.worker = "w2";
  CHECK(MaySend(sender, Header(join), Receiver::kCoordinator));
  join.worker = "w1";
  join.catalog.clear();
  CHECK(MaySend(sender, Header(join), Receiver::kCoordinator));  // it only asks for the job file
}

TEST_CASE("the table has every message", "[wire][permissions]") {
  std::set<std::size_t> kinds;
  for (const Cells& row : Table()) kinds.insert(row.header.any().index());
  CHECK(kinds.size() == std::variant_size_v<MessageVariant>);
}

}  // namespace
}  // namespace capstan
