// WorkerGroup: the group of workers to which this session's worker belongs: what the coordinator's views say about the
// group, and what this worker reports about it.
//
// Kind:   owned by the Session; part of its core. One implementation per kind of group, chosen by the job's mode.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/messages/group.h"
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/limits.h"
#include "common/wire/messages/view.h"
#include "worker/session/session_events.h"

namespace capstan::session {

class WorkerGroup {
 public:
  virtual ~WorkerGroup() = default;

  struct News {
    std::optional<SessionEvent> event;
    bool replaced = false;  // another group took the place of the one that pushes were deferred for
  };
  // Takes a view from the coordinator. `generation`: the generation that this session is in.
  virtual News Follow(const View& view, Generation generation) = 0;
  virtual void EnterGeneration() = 0;
  // Returns the group's epoch for Heartbeats; 0: the group is named by its generation, or no group was announced yet.
  virtual std::uint64_t epoch() const = 0;
  // allreduce: returns the members that compute a round together, without addresses, and this worker's rank among them.
  virtual const std::vector<GroupMember>& members() const = 0;
  virtual int rank() const = 0;

  // Sets how far this worker is in forming the group. `text`: as Heartbeat::group_text, which takes kGroupTextBytesMax.
  void Report(GroupState state, std::string text) {
    text.resize(std::min(text.size(), kGroupTextBytesMax));
    report_ = {state, std::move(text)};
  }
  GroupState state() const { return report_.state; }
  const std::string& text() const { return report_.text; }

 protected:
  struct Reported {
    GroupState state = GroupState::kNone;
    std::string text;
  };
  static bool AllOffered(const std::vector<GroupMember>& members);

  Reported report_;
};

// allreduce: the workers of the generation.
class AllReduceGroup final : public WorkerGroup {
 public:
  // Notes the members. Returns a GroupKnown with their addresses once per generation, when all have offered one.
  News Follow(const View& view, Generation generation) override;
  void EnterGeneration() override { *this = {}; }
  std::uint64_t epoch() const override { return 0; }
  const std::vector<GroupMember>& members() const override { return members_; }
  int rank() const override { return rank_; }

 private:
  // Kept here, because views no longer name the members once the group is to be replaced.
  std::vector<GroupMember> members_;  // without addresses
  int rank_ = 0;                      // this worker's rank in members_
  bool known_ = false;                // GroupKnown has been issued
};

// sync: the workers of this machine that add up their pushes. A new generation does not change the group. In async and
// bounded no group is ever announced.
class MachineGroup final : public WorkerGroup {
 public:
  News Follow(const View& view, Generation generation) override;
  void EnterGeneration() override {}
  std::uint64_t epoch() const override { return epoch_; }
  const std::vector<GroupMember>& members() const override { return none_; }
  int rank() const override { return 0; }

 private:
  std::uint64_t epoch_ = 0;
  bool known_ = false;  // the MachineGrouping event with addresses has been issued
  const std::vector<GroupMember> none_{};
};

}  // namespace capstan::session
