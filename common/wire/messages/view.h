// View: the coordinator tells a worker how the job is.
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
  // Left out for a worker whose Beat says that it is in `generation`: it knows them.
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
  std::string notice;             // for whoever looks after this worker: what is not as it should be; empty: nothing
};

}  // namespace capstan
