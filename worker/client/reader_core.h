// ReaderCore: follows a job without taking part in it: learns the job's file and progress, and fetches one version.
//
// Kind:   owned by the reader's thread; a pure core.
// Limits: one reading at a time; WeightsReader::kWindow blocks requested per shard.
// Fails:  status() ends a call. kRefused: the job has failed, another job runs at the address, or the coordinator
//         refuses. kUnreachable: the coordinator is silent, or no connection to a shard can be made. kBusy: no memory.
//         kCorrupt, kInvalid: a shard's answers. The next call starts again.
// Why:    programs that evaluate a job or fetch its weights have no slot. Only the job's end waits for them, for one
//         lease.
//
// In mode sync a shard serves version k only during step k. The reader requests the version that the coordinator
// reported. If a shard has passed this version, its answer names the shard's own step s. The reader then requests
// version s + 1 from all shards, or a later one if s + 1 came too late as well. Such pulls wait at the shards until
// their step begins. So the reader gets a version unless reading it takes longer than a step. In mode allreduce shards
// serve an uploaded version until the next one.
//
// A reader that knows the job's last version, because it has read that version or received the coordinator's kDone,
// does not ask whether a newer one exists: the coordinator may have ended by then. With global steps, a version that
// shards mark as the last is complete, and for readers the job has ended.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/data/catalog.h"
#include "common/wire/actor.h"
#include "common/wire/messages/view.h"
#include "common/wire/weights_reader.h"
#include "worker/client/coordinator_contact.h"
#include "worker/client/followed_job.h"
#include "worker/client/shard_sources.h"
#include "worker/client/version_arrays.h"

namespace capstan::client {

struct ReaderCoreOptions {
  std::string name;
  std::uint64_t nonce = 0;  // random per reader; identifies it to the coordinator
  PeerId coordinator;
  std::string coordinator_address;  // for messages
  std::uint32_t block_elements = kBlockElements;
  Instant silence_limit = std::chrono::seconds(60);            // until the job file gives limits.stall
  std::function<PeerId(const std::string& endpoint)> connect;  // connects to a shard
  std::function<void(PeerId)> disconnect;
};

class ReaderCore {
 public:
  struct Request {
    std::optional<Step> newer_than;  // nullopt: any version
    bool optimizer_state = false;
    bool operator==(const Request&) const = default;
  };
  // One complete version of the job's weights.
  struct Reading {
    Step step;  // without global steps: a step that every slot had reached before
    Generation generation;
    bool done = false;  // this is the job's last version
    std::uint64_t updates = 0;
    double gradient_norm = 0.0;
  };

  explicit ReaderCore(ReaderCoreOptions options);

  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  // Call at least every 10 ms while a call waits.
  void Tick(Instant now, Outbox* out);

  // Starts a call that asks for the job's progress; fresh() becomes true with the next view.
  void Refresh();
  bool fresh() const { return fresh_; }
  // Starts a call that asks for a version; answered() becomes true when the version is complete or cannot exist. The
  // same request again continues the current reading.
  void Ask(const Request& request);
  bool answered() const { return reading_.has_value() || nothing_newer_; }
  // Returns the version that was read; valid once answered() is true. nullopt: the job is done and has no newer
  // version.
  const std::optional<Reading>& reading() const { return reading_; }
  // Tells why the call cannot be answered.
  const Status& status() const { return status_; }
  // Lets the job end without waiting for this reader. The core itself calls it once it has the last version.
  void Leave(Outbox* out);

  // Returns the newest view; valid once fresh() is true.
  const View& view() const { return *job_.view(); }
  // Returns the job file; empty before it is known.
  const std::string& job_file() const { return job_.file(); }
  // Returns the job's tensors; null before a view has named them.
  const Catalog* catalog() const { return job_.catalog(); }
  const std::vector<std::string>& state_names() const { return job_.state_names(); }
  // Returns a flat array of reading(): index 0 is the weights, the others are the optimizer's states. Null: not
  // fetched.
  const float* array(std::uint32_t index) const { return reading_ ? arrays_.array(index) : nullptr; }
  std::string WaitingFor() const;

 private:
  void On(const View& view, Instant now, Outbox* out);
  void AskCoordinator(Instant now, Outbox* out);
  std::optional<Step> NextVersion() const;
  // If the call asks for a version after the job's last one, answers "nothing newer". Returns whether it did.
  bool AnswerNothingNewer(Outbox* out);
  void Continue(Instant now, Outbox* out);
  void Begin(Step step, Instant now, Outbox* out);
  void Finish(Outbox* out);
  void Fail(Status status);

  const ReaderCoreOptions options_;
  FollowedJob job_;
  CoordinatorContact coordinator_;
  ShardSources shards_;
  VersionArrays arrays_;

  bool fresh_ = false;
  bool pulls_ = false;  // the current call asks for request_
  std::optional<Request> request_;
  std::unique_ptr<WeightsReader> reader_;
  bool has_last_ = false;  // has the last version, or has left
  // Once a shard has passed the requested version: how many steps after the shard's own the next request is.
  std::uint64_t steps_past_ = 1;
  bool looked_back_ = false;  // this call has requested the present version although it waited for a later one
  bool reads_last_ = false;   // the job was done when this reading began
  std::optional<Reading> reading_;
  bool nothing_newer_ = false;
  Status status_;
};

}  // namespace capstan::client
