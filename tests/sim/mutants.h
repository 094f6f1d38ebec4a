// Mutants: rules of the protocol, each broken on purpose, from outside the product's code: what arrives is rewritten as
// if the receiver did not look, what is sent as if the sender did not care, disks and the log forget what they promised
// to keep, workers compute what they must not.
//
// Kind:   a table; a Tampering for each mutated run.
// Why:    a check that has never bitten is an opinion. MUTANTS.md keeps how many seeds each takes.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/config/job/mode.h"
#include "common/wire/message.h"
#include "tests/sim/addresses.h"

namespace capstan::server {
class Coordinator;
class Shard;
}  // namespace capstan::server

namespace capstan::sim {

// What disks, the coordinator's log and workers do wrong.
enum class Flaw {
  kNone,
  kWriteNotDurable,       // the newest part is gone when its shard dies
  kDamageHashed,          // a damaged part's hashes agree with the damage
  kOlderArrays,           // a part holds the arrays of the part before it, with hashes that agree
  kNoOptimizerState,      // a part holds the weights alone
  kNoSequenceNumbers,     // a part does not hold which pushes are in it
  kIncarnationForgotten,  // every life of a shard takes the same number
  kGenerationForgotten,   // a shard that comes back knows no generation
  kRecoverNotDurable,     // these records are lost when the coordinator dies soon after
  kRunningNotDurable,
  kManifestNotDurable,
  kTermForgotten,  // none of these is ever there when a coordinator starts
  kSessionForgotten,
  kLogNotDurable,        // the newest append is gone when its shard dies
  kReplayedTwice,        // a record of the log is handed out twice
  kLogTrimmedEarly,      // the log is trimmed when a part is written, before its snapshot exists
  kSumInSlotOrder,       // a worker adds its slots from the last to the first
  kDataByPosition,       // a slot's data depends on its place among its worker's slots
  kNotReproducible,      // a gradient depends on who computed it
  kOldWeights,           // a worker computes before all blocks of the version are there
  kOwnProgramState,      // a worker goes on from the program's state that it made last, not from the version's
  kMadeInAnyGeneration,  // a worker takes what it made, whichever generation committed that step
  kHeldOfAnyGeneration,  // a worker takes its replica for the job's by the version alone
  kGroupKept,            // a worker goes on with its group in another generation
  kShareForgotten,       // a worker gives none of its share of a version that is to be kept
  kUnreadableHeader,     // a part has a header that cannot be read
  kSmallFrames,          // a frame holds less than most messages need
  kStopAtOnce,           // a job that is to stop does not wait for its last snapshot
};

// What a mutant may look at.
struct World {
  const server::Coordinator* coordinator = nullptr;  // that is alive
  std::vector<const server::Shard*> shards;          // null: dead
  std::vector<Incarnation> incarnations;             // of the shards' present lives
  Instant now{};
};

// A message on its way.
struct Tampering {
  const World* world = nullptr;
  std::uint64_t from = 0, to = 0;
  const server::Coordinator* receiver = nullptr;  // of a delivery to a coordinator, perhaps one that was replaced
  bool from_zombie = false;                       // a send of a coordinator that was replaced
  Message message;
  bool drop = false;
  std::vector<Message> before;  // forged: delivered first, from the same sender
  struct Forged {
    std::uint64_t from = 0, to = 0;
    Message message;
  };
  std::vector<Forged> also;  // forged: sent besides
  // What the mutant remembers within a run.
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>>* seen = nullptr;
  std::map<std::uint64_t, std::uint64_t>* numbers = nullptr;

  const server::Shard* shard() const {  // that receives; null: none, or dead
    const std::size_t index = static_cast<std::size_t>(to) - kShards;
    return IsShardAddress(to) && index < world->shards.size() ? world->shards[index] : nullptr;
  }
};

struct Mutant {
  std::string name;
  std::string broken;  // the rule, for people
  Mode mode = Mode::kSync;
  Flaw flaw = Flaw::kNone;
  std::function<void(Tampering*)> deliver, send;
  bool durable = false;  // with acknowledgements of what is on disk
  bool old = false, slow_lines = false;
};

const std::vector<Mutant>& Mutants();
// Adds those of tentative weights.
void AddTentative(std::vector<Mutant>* all);
// Those of the end of a job.
void AddEnding(std::vector<Mutant>* all);
// Those of limits, stops and readers.
void AddLimits(std::vector<Mutant>* all);
// And those of mode allreduce.
void AddReplicas(std::vector<Mutant>* all);
// Null: there is none of this name.
const Mutant* FindMutant(const std::string& name);

}  // namespace capstan::sim
