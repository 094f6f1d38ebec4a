// TeamCalls: the collective calls of a client: it sends them to the session's thread, and reduces what comes back.
//
// Kind:   part of a ClientBase; owned by the application's thread.
// Limits: as Collectives has them. Besides its own bytes, a call keeps its result: of an all-gather all members' bytes,
//         at most kRanksMax * kBytesMax.
// Fails:  as Collectives says.
#pragma once

#include <capstan/collectives.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "worker/client/fork_guard.h"
#include "worker/session/session_loop.h"

namespace capstan::client {

class TeamCalls : public Collectives {
 public:
  struct Owner {
    std::function<Status()> check;                  // whether calls may be made now
    std::function<Status(Deadline)> wait;           // waits for an event and handles it; kTimeout: none came
    std::function<Status()> look;                   // handles the events that have come
    std::function<void(session::Command)> command;  // sends a command to the session's thread
    std::function<bool()> finished;                 // whether the job is done
  };
  explicit TeamCalls(Owner owner) : owner_(std::move(owner)) {}

  Result<TeamPlace> FormTeam(std::optional<TeamPlace> place, Deadline deadline) override;
  std::optional<TeamPlace> place() const override { return place_; }
  std::uint32_t WaitingForTeam() override;
  Status AllReduce(void* values, std::uint64_t count, NumberType type, Reduction reduction, Deadline deadline) override;
  Status AllGather(const void* given, std::uint64_t bytes, std::string_view what, Deadline deadline) override;
  Bytes Gathered(std::uint32_t rank) const override;
  Status Broadcast(void* values, std::uint64_t bytes, std::uint32_t root, Deadline deadline) override;

  void On(const session::TeamFormed& formed);
  void On(session::TeamPieces& pieces);
  void On(session::TeamWaits& waits);
  void On(session::TeamFailed& failed);

 private:
  // Takes a piece of all ranks, at this offset in what each has given.
  using Take = std::function<Status(std::uint64_t offset, session::TeamPieces& pieces)>;

  Status Run(const std::string& what, std::span<const std::byte> given, Take take, Deadline deadline);
  Status Wait(const std::string& what, Deadline deadline);

  const Owner owner_;
  const OwnerProcess process_;
  std::optional<TeamPlace> place_;
  std::uint64_t wishes_ = 0;  // calls of FormTeam; events of earlier ones do not count
  bool forming_ = false;
  Status failure_;  // of the team
  struct Pending {  // the call under way
    std::string what;
    std::uint64_t bytes = 0;
    Take take;
    bool done = false;
    Status status;
  };
  std::optional<Pending> pending_;
  std::string missing_;
  std::uint32_t waiting_ = 0;
  std::vector<std::byte> reduced_;
  std::vector<std::vector<std::byte>> gathered_;  // by rank
};

}  // namespace capstan::client
