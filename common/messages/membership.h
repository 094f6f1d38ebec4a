// Messages between a worker and the coordinator.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/catalog.h"
#include "common/messages/group.h"
#include "common/messages/group_state.h"
#include "common/types.h"

namespace capstan {

struct Join {
  JobId job;                              // null on the first join
  std::string worker;                     // name; a newer join under the same name takes over
  std::uint64_t nonce = 0;                // one life of the process
  std::string numeric_class;              // build, machine kind, libraries: what bits depend on
  std::uint64_t numeric_fingerprint = 0;  // of a fixed probe of every kernel
  std::uint64_t data_fingerprint = 0;
  std::vector<TensorSpec> catalog;  // empty until the worker has the job file and has built its model
  std::uint32_t rank = 0;           // 0: takes any slots; r: slot r - 1, which nobody else is given
  std::uint32_t ranks = 0;          // with a rank: how many there are
  std::string machine;              // that it runs on; empty: it does not reduce with its neighbours
};

struct ShardAddress {
  ShardIndex shard = 0;
  Incarnation incarnation;
  std::string endpoint;
  bool operator==(const ShardAddress&) const = default;
};

// kDone: for readers, that the last step is committed; for a worker, that it may end, which it hears when the last snapshot
// and the final weights are there too. Until then it hears kGathering, for a lost shard may take steps back.
enum class JobPhase : std::uint8_t { kGathering = 0, kRunning = 1, kDone = 2, kFailed = 3 };

struct View {  // a hint, never a right
  JobId job;
  Term term;
  Generation generation;
  std::uint64_t sequence = 0;  // rises with every change within a term
  SessionId session;
  JobPhase phase = JobPhase::kGathering;
  SlotIndex slot_count = 0;
  std::vector<SlotIndex> slots;  // this worker's
  std::vector<ShardAddress> shards;
  Step step;                        // the coordinator's current step
  std::string message;              // for people: why it failed; to one in a barrier, whom that waits for
  std::string job_file;             // canonical TOML; only in answer to a Join without catalog
  bool founder = false;             // the job's first weights are to come from this worker
  std::vector<TensorSpec> catalog;  // the job's, once known; only in answer to a Join without catalog
  std::uint64_t barrier = 0;        // the newest that was passed, in this term
  Step readable;                    // the newest version that shards have: `step`, in allreduce an earlier one
  // In order of ranks; empty: this worker is none of it. allreduce: of `generation`. sync: those of its machine.
  std::vector<GroupMember> group;
  std::uint64_t group_epoch = 0;  // sync: rises whenever the group is another one, and never falls
};

struct Beat {
  SessionId session;
  std::uint64_t nonce = 0;
  Generation generation;
  Step step;
  bool computing = false;                // false: all it has of `step` is staged, it waits for others
  std::uint64_t view_sequence = 0;       // the newest view held
  std::vector<ShardIndex> missing;       // shards that do not answer
  std::uint64_t barrier = 0;             // the one it waits for; 0: none
  GroupState group = GroupState::kNone;  // allreduce: of `generation`; sync: of `group_epoch`
  std::string group_text;                // kOffered, kFormed: its address; kBroken, kLost: why
  std::uint64_t group_epoch = 0;
};

struct Leave {
  SessionId session;
  std::uint64_t nonce = 0;
  std::string reason;
};

}  // namespace capstan
