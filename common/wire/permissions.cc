#include "common/wire/permissions.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "common/base/utf8.h"
#include "common/wire/messages.h"

namespace capstan {
namespace {

using Roles = unsigned;  // a set of roles, a bit for each
constexpr Roles Only(Role role) { return 1U << static_cast<unsigned>(role); }

constexpr Roles kNobody = 0;
constexpr Roles kCoordinator = Only(Role::kCoordinator), kServers = Only(Role::kServer);
constexpr Roles kWorkers = Only(Role::kWorker), kReaders = Only(Role::kReader) | Only(Role::kAdmin);

// The roles that may send a message to each receiver.
struct Row {
  Roles coordinator = kNobody, shard = kNobody, worker = kNobody, reader = kNobody;
};

constexpr std::size_t kMessages = std::variant_size_v<MessageVariant>;

constexpr std::array<Row, kMessages> kRows = [] {
  std::array<Row, kMessages> rows{};
  const auto set = [&]<class... Ts>(TypeList<Ts...>, const Row& row) {
    ((rows[MessageTypes::IndexOf<Ts>()] = row), ...);
  };
  using OfCoordinator =
      TypeList<Ping, Reset, Commit, Redo, ClockUpdate, Pin, RetainedSnapshots, LiveSessions, Shutdown>;
  using OfServer = TypeList<Hello, ResetDone, ResetBad, Prepared, Committed, Progress, SnapshotDone, Disagreement>;
  set(OfCoordinator(), {.shard = kCoordinator});
  set(OfServer(), {.coordinator = kServers});
  set(TypeList<Join>(), {.coordinator = kServers | kWorkers | kReaders});  // a server asks for the job file
  set(TypeList<Heartbeat, Leave>(), {.coordinator = kWorkers | kReaders});
  set(TypeList<View>(), {.worker = kCoordinator, .reader = kCoordinator});
  set(TypeList<TeamAsk, TeamGive>(), {.coordinator = kWorkers});
  set(TypeList<TeamState, TeamPiece>(), {.worker = kCoordinator});
  set(TypeList<Push, EndSlot, UploadBlock>(), {.shard = kWorkers});
  set(TypeList<UploadAck>(), {.worker = kServers});
  // The coordinator reads the final weights as a reader does.
  set(TypeList<Pull, CoverageQuery>(), {.shard = kWorkers | kReaders | kCoordinator});
  set(TypeList<Weights, Published, Staged>(), {.coordinator = kServers, .worker = kServers, .reader = kServers});
  set(TypeList<Fetch, Fetched>(), {.shard = kServers});
  constexpr Roles kProcesses = kCoordinator | kServers;
  set(TypeList<Error>(), {.coordinator = kServers | kWorkers | kReaders,
                          .shard = kProcesses | kWorkers | kReaders,
                          .worker = kProcesses,
                          .reader = kProcesses});
  return rows;
}();

Roles SendersTo(const Row& row, Receiver receiver) {
  switch (receiver) {
    case Receiver::kCoordinator: return row.coordinator;
    case Receiver::kShard: return row.shard;
    case Receiver::kWorker: return row.worker;
    case Receiver::kReader: break;
  }
  return row.reader;
}

// Whether only a worker may send the message: one that joins the job, or comes from a session that has joined it.
bool IsOfMember(const Header& header) {
  if (const auto* join = header.As<Join>()) return !join->catalog.empty();
  if (const auto* heartbeat = header.As<Heartbeat>()) return heartbeat->session != SessionId{};
  const auto* leave = header.As<Leave>();
  return leave != nullptr && leave->session != SessionId{};
}

// Returns the shard for which a server speaks; nothing if the message names none.
std::optional<ShardIndex> ShardIn(const Header& header) {
  std::optional<ShardIndex> shard;
  header.VisitAs<Hello, ResetDone, ResetBad, Prepared, Committed, Progress, SnapshotDone, Disagreement>(
      [&](const auto& body) { shard = body.shard; });
  return shard;
}

bool IsOfServer(const std::string& number, const Header& header, std::uint32_t shards_per_server) {
  const std::optional<ShardIndex> shard = ShardIn(header);
  return !shard || number.empty() || std::to_string(*shard / shards_per_server) == number;
}

// Whether a name belongs to another worker's key.
bool IsReserved(const Principal& sender, const std::string& name) {
  return sender.reserved_names != nullptr && sender.reserved_names->contains(name);
}

}  // namespace

bool MaySend(const Principal& sender, const Header& header, Receiver receiver, std::uint32_t shards_per_server) {
  const Roles roles = SendersTo(kRows[header.any().index()], receiver);
  if (sender.role == Role::kAnyone || sender.role == Role::kThisUser) return roles != kNobody;
  if ((roles & Only(sender.role)) == 0) return false;
  if (sender.role == Role::kServer && !IsOfServer(sender.name, header, shards_per_server)) return false;
  if (sender.role != Role::kWorker) return !IsOfMember(header);
  const auto* join = header.As<Join>();
  if (join == nullptr || join->catalog.empty()) return true;
  return sender.name.empty() ? !IsReserved(sender, join->worker) : join->worker == sender.name;
}

std::string WhatItSaid(const Principal& sender, const Header& header) {
  if (const std::optional<ShardIndex> shard = ShardIn(header); shard && sender.role == Role::kServer) {
    return "speaks for shard " + std::to_string(*shard);
  }
  const auto* join = header.As<Join>();
  if (join != nullptr && sender.role == Role::kWorker) {
    return "joins as \"" + Excerpt(join->worker) + "\"" +
           (IsReserved(sender, join->worker) ? ", and that name belongs to another key" : "");
  }
  return "sends what its role may not send";
}

}  // namespace capstan
