// View: the coordinator tells a worker the state of the job.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/data/catalog.h"
#include "common/wire/messages/group.h"
#include "common/wire/messages/shard_address.h"

namespace capstan {

// kDone tells a reader that the last step is committed, and a worker that it may end. A worker gets kDone only when the
// final weights are written and no snapshot is missing. Until then it gets kGathering, because a lost shard may still
// set the job back some steps.
enum class JobPhase : std::uint8_t { kGathering = 0, kRunning = 1, kDone = 2, kFailed = 3 };

struct View {  // information only: it gives a worker no exclusive right to a slot
  JobId job;
  Term term;
  Generation generation;
  std::uint64_t sequence = 0;  // rises with every change in a term
  SessionId session;
  JobPhase phase = JobPhase::kGathering;
  SlotIndex slot_count = 0;
  std::vector<SlotIndex> slots;  // this worker's slots
  // Empty for a worker whose Heartbeat names `generation`, because it has the addresses already, and for all while the
  // shards do not serve `generation`.
  std::vector<ShardAddress> shards;
  Step step;             // the coordinator's current step
  std::string message;   // text for the user: why the job failed, or which members a barrier waits for
  std::string job_file;  // canonical TOML; only in answer to a Join without a catalog
  // This worker must upload the job's initial weights or, in an external job, version `step` if that is not 0.
  bool founder = false;
  std::vector<TensorSpec> catalog;  // the job's catalog, once known; only in answer to a Join without a catalog
  std::uint64_t barrier = 0;        // the newest barrier that was passed in this term
  Step readable;                    // the newest version on the shards: `step`; in allreduce it may be earlier
  // The members of this worker's group, in rank order: in allreduce the workers of `generation`, in sync those of its
  // machine. Empty: the worker is in no group.
  std::vector<GroupMember> group;
  std::uint32_t group_rank = 0;   // this worker's position in `group`
  std::uint64_t group_epoch = 0;  // sync: rises with every change of the group, and never falls
  std::string notice;             // a problem that the worker's user should know of; empty: none
  std::uint64_t clock_ms = 0;     // the coordinator's clock, ms since 1970; only in an answer that has the job file
};

}  // namespace capstan
