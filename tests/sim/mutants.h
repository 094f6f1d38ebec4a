// Mutants: rules of the protocol, each broken on purpose from outside the product's code. Incoming messages are
// rewritten as if the receiver did not check them, outgoing ones as if the sender did not care. Disks and the log lose
// what they should keep, and workers compute what they must not.
//
// Kind:   a table of Mutants; a Tampering for each message that a mutant may change.
// Why:    a check that has never failed is unproven. MUTANTS.md lists for each mutant a seed whose run notices it, or
//         why there is none.
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

// Flaws of disks, logs, workers and the simulator itself, for mutants that do not change messages.
enum class Flaw {
  kNone,
  kWriteNotDurable,       // the newest part is gone when its shard dies
  kDamageHashed,          // a damaged part's hashes match the damage
  kOlderArrays,           // a part holds the previous part's arrays, with matching hashes
  kNoOptimizerState,      // a part holds only the weights
  kNoSequenceNumbers,     // a part does not record which pushes it contains
  kIncarnationForgotten,  // every start of a shard takes the same incarnation
  kGenerationForgotten,   // a restarted shard knows no generation
  kRecoverNotDurable,     // these records are lost if the coordinator dies soon after
  kRunningNotDurable,
  kManifestNotDurable,
  kTermForgotten,             // these records are never there when a coordinator starts
  kLogNotDurable,             // the newest append is gone when its shard dies
  kReplayedTwice,             // a log record is returned twice
  kLogTrimmedEarly,           // the log is trimmed when a part is written, before its snapshot exists
  kSumInSlotOrder,            // a worker adds its slots from the last to the first
  kDataByPosition,            // a slot's data depends on its position among its worker's slots
  kNotReproducible,           // a gradient depends on the worker that computed it
  kOldWeights,                // a worker computes before all blocks of the version have arrived
  kOwnProgramState,           // a worker continues from the program state that it made last, not from the version's
  kMadeInAnyGeneration,       // a worker takes the version it made, whichever generation committed that step
  kReplicaOfAnyGeneration,    // a worker checks only the version number of its replica
  kGroupKept,                 // a worker keeps its group in another generation
  kShareForgotten,            // a worker uploads none of its share of a retained version
  kHeadsOfAnyStep,            // the workers of a machine add up whatever their steps
  kDeferredForgotten,         // a worker's deferred pushes are not sent when its machine's group does not add them up
  kRoundNotAwaited,           // a worker ends its round before it has pushed all sums for its machine
  kUnreadableHeader,          // a part has an unreadable header
  kSmallFrames,               // a frame holds less than most messages need
  kSkippedStepMade,           // a program takes the gradient of a skipped step
  kVersionUnsaid,             // a program does not say which version it has made
  kStopAtOnce,                // a stopping job does not wait for its last snapshot
  kReferredNotKept,           // a sender uses memory again although the receiver has not copied it
  kCopiedTooEarly,            // a receiver says that it has copied a payload when the message comes in
  kCopiedUnasked,             // a worker copies weights to where it computes without asking its session
  kReferenceOfAnyConnection,  // a receiver believes references of connections that are gone
  kLentNotChecked,            // a shard does not check what it has read of a lent payload
};

// The state of the cluster that mutants and markers may read.
struct World {
  const server::Coordinator* coordinator = nullptr;  // the living one
  std::vector<const server::Shard*> shards;          // null: dead
  std::vector<Incarnation> incarnations;             // of the running shards
  Instant now{};
};

// A message in flight.
struct Tampering {
  const World* world = nullptr;
  std::uint64_t from = 0, to = 0;
  const server::Coordinator* receiver = nullptr;  // the receiving coordinator, perhaps a replaced one
  bool from_zombie = false;                       // sent by a replaced coordinator
  Message message;
  bool drop = false;
  std::vector<Message> before;  // forged messages to deliver first, from the same sender
  struct Forged {
    std::uint64_t from = 0, to = 0;
    Message message;
  };
  std::vector<Forged> also;  // forged messages to send as well
  // What the mutant has noted during this run; its hooks define the meaning.
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>>* seen = nullptr;
  std::map<std::uint64_t, std::uint64_t>* numbers = nullptr;

  const server::Shard* shard() const {  // the receiving shard; null: none, or dead
    const std::size_t index = static_cast<std::size_t>(to) - kShards;
    return IsShardAddress(to) && index < world->shards.size() ? world->shards[index] : nullptr;
  }
};

struct Mutant {
  std::string name;
  std::string broken;  // the rule, for the report
  Mode mode = Mode::kSync;
  Flaw flaw = Flaw::kNone;
  std::function<void(Tampering*)> deliver, send;
  bool durable = false;  // with durable acknowledgements
  bool old = false, slow_lines = false;
  bool local = false;     // with machine reduction
  bool external = false;  // the optimizer stays in the program
  bool shared = false;    // payloads lie in their sender's memory
};

const std::vector<Mutant>& Mutants();
// Adds the mutants of steps that are computed again.
void AddRedos(std::vector<Mutant>* all);
// Adds the mutants of speculative weights.
void AddSpeculative(std::vector<Mutant>* all);
// Adds the mutants of the end of a job.
void AddEnding(std::vector<Mutant>* all);
// Adds the mutants of limits, stops, readers and wasted messages.
void AddLimits(std::vector<Mutant>* all);
// Adds the mutants of machine reduction.
void AddMachine(std::vector<Mutant>* all);
// Adds the mutants of jobs whose optimizer stays in the program.
void AddExternal(std::vector<Mutant>* all);
// Adds the mutants of sessions: who may send what to a shard.
void AddSessions(std::vector<Mutant>* all);
// Adds the mutants of payloads in shared memory.
void AddSharedMemory(std::vector<Mutant>* all);
// Adds the mutants of mode allreduce.
void AddReplicas(std::vector<Mutant>* all);
// Returns the mutant of this name; null: there is none.
const Mutant* FindMutant(const std::string& name);

}  // namespace capstan::sim
