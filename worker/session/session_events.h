// Session's events: what a session tells its application.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/wire/messages/group.h"
#include "worker/session/step_terms.h"
#include "worker/session/version_source.h"

namespace capstan::session {

// One round of work for the application: to compute these slots of one step, with that step's weights.
struct RoundWork {
  Generation generation;
  Step step;                // sync: the global batch; async: how many pushes the slot has made
  std::uint64_t round = 0;  // rises within this session; names the round in calls
  std::vector<SlotIndex> slots;
  SlotIndex slot_count = 0;
  std::uint64_t updates = 0;   // sync: how many updates the weights have had; else 0
  double gradient_norm = 0.0;  // of the step that made the weights, as StepParameters has it
  // allreduce: what the worker must know of the version, and the generation's group, without addresses. `group` is
  // empty if the group was given up before this worker received it.
  StepTerms terms;
  std::vector<GroupMember> group;
  int rank = 0;
  // Jobs whose optimizer stays in the program: how the program gets the version.
  VersionSource source = VersionSource::kServers;
  bool at_end = false;  // the version is the last one
  bool keep = false;    // the program must upload the version in this round
};

struct JobFile {
  std::string text;
  JobId job;
};
struct Joined {};
struct WorkReady {
  RoundWork work;
  float loss_scale = 1.0F;
  bool weights_complete = false;  // the application has all of this version's weights already; else they arrive now
};
struct WeightsArrived {
  BlockIndex block = 0;
  std::uint32_t array = 0;  // as in a Pull
  Version version;
  Slice payload;
  std::string program_state;  // the version's program state; only with block 0
};
struct WorkVoid {
  std::uint64_t round = 0;
};
struct BarrierWaits {
  std::string missing;  // text for the user
};
struct BarrierPassed {};
struct GroupKnown {  // allreduce: all members have offered addresses
  Generation generation;
  std::vector<GroupMember> members;  // by rank
  int rank = 0;
};
struct MachineGrouping {  // the workers of this machine that may add up their pushes
  std::uint64_t epoch = 0;
  // By rank; empty: this worker has no group. Addresses are set once all members have offered one.
  std::vector<GroupMember> members;
  int rank = 0;
};
struct StepDone {  // sync: this worker has nothing more to do in the step, or had nothing to do at all
  Generation generation;
  Step step;
};
struct Finished {};
struct Failed {
  Status status;
};
using SessionEvent = std::variant<JobFile, Joined, WorkReady, WeightsArrived, WorkVoid, BarrierWaits, BarrierPassed,
                                  GroupKnown, MachineGrouping, StepDone, Finished, Failed>;

}  // namespace capstan::session
