// Job: the parts of a coordinator, each with its own state. A function that only reads the job takes a const Job&.
//
// Kind:   owned by the Coordinator. Parts refer to each other through JobFacts, so a Job is never moved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "monitoring/metrics.h"
#include "server/coordinator/allreduce_group.h"
#include "server/coordinator/barrier.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/equal_slots.h"
#include "server/coordinator/followers.h"
#include "server/coordinator/job_clock.h"
#include "server/coordinator/job_facts.h"
#include "server/coordinator/job_state.h"
#include "server/coordinator/journal.h"
#include "server/coordinator/machine_groups.h"
#include "server/coordinator/membership.h"
#include "server/coordinator/ranks.h"
#include "server/coordinator/session_feed.h"
#include "server/coordinator/shard_table.h"
#include "server/coordinator/snapshots.h"
#include "server/coordinator/step_records.h"
#include "server/coordinator/steps.h"
#include "server/coordinator/stragglers.h"
#include "server/coordinator/version_keeper.h"

namespace capstan::server {

// The worker that uploads version 0.
struct InitialSource {
  SessionId session;
  std::string name;
};

// The workers that upload versions to the shards.
struct Uploaders {
  std::optional<InitialSource> initial;  // of version 0
  std::optional<VersionKeeper> keeper;   // of later ones; only if the optimizer stays in the program
};

struct Ending {
  std::optional<Instant> stop_since;  // when a stop was requested or, if later, when the newest step ended
  bool shutting_down = false;
};

struct Told {                       // what workers and shards were sent of the members
  std::uint64_t view_sequence = 1;  // the number of the newest view
  SessionFeed sessions;
};

struct Job {
  Job(CoordinatorOptions given, CoordinatorLog* log, std::shared_ptr<monitoring::CoordinatorMetrics> shared_metrics,
      Instant now);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  SlotIndex slot_count() const;
  // Returns a new id for a session, which nobody can guess.
  SessionId DrawSession() const;
  Instant lease() const;
  bool stopping() const { return ending.stop_since.has_value(); }
  StepUnderWay work() const { return {journal.generation(), steps->step()}; }
  // Whether nothing is left to do for a snapshot of the newest version: it exists, cannot be taken, or is not wanted.
  bool SnapshotsSettled() const { return snapshots.IsSettled(steps->SnapshotsSince(), steps->step()); }
  // Whether every shard has the last version, and the job still waits for the snapshot of that version.
  bool AwaitsLastSnapshot() const;
  // Whether the shards serve the newest generation: it runs, or its last step is done and the job is not concluded.
  bool IsServing() const;

  const CoordinatorOptions options;
  const std::shared_ptr<monitoring::CoordinatorMetrics> metrics;
  Journal journal;
  JobState state;
  ShardTable shards;
  const JobFacts facts;
  Snapshots snapshots;
  const std::unique_ptr<Steps> steps;
  StepRecords records;
  JobClock clock;
  Membership members;
  Ranks ranks;
  Barrier barrier;
  Followers followers;
  std::optional<AllReduceGroup> group;          // only in mode allreduce
  std::optional<MachineGroups> machine_groups;  // only in jobs with local_reduce
  Uploaders uploaders;
  EqualSlots equal_slots;
  Told told;
  Ending ending;
};

}  // namespace capstan::server
