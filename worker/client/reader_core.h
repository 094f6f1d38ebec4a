// ReaderCore: follows a job without taking part in it: learns what the job is and how far, and fetches one version.
//
// Kind:   owned by the reader's thread; a pure core.
// Limits: one reading at a time; WeightsReader::kWindow blocks asked for per shard.
// Fails:  status() ends a call: kRefused when the job has failed or does not answer readers, kUnreachable after the
//         coordinator's silence, kCorrupt and kInvalid of a shard. The next call begins anew.
// Why:    programs that evaluate a job or take its weights away hold no slot, and nothing of a job waits for them but
//         its end, for one lease.
//
// With global steps a shard serves version k during step k alone. A reader asks for the step that the job is said to be
// at; a shard that has passed it says where it stands, s, and then all shards are asked for s + 1, or further ahead
// when that came too late as well: those pulls wait there and are answered during all of that step. So a version is had
// unless reading it takes longer than a step. Where workers update, shards serve a kept version until the next one.
//
// A reader that knows the job's last version, having read it or heard that the job is done, asks nobody whether there is
// a newer one: the coordinator may have ended by then. A version that all shards call the last is on all of them, which
// is what a job's end is to readers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config/job/optimizer_kind.h"
#include "common/data/catalog.h"
#include "common/wire/actor.h"
#include "common/wire/messages/view.h"
#include "common/wire/weights_reader.h"

namespace capstan::client {

// What the arrays of state are called by the optimizers of PyTorch, whose arithmetic they follow.
std::vector<std::string> StateNames(OptimizerKind kind);

struct ReaderCoreOptions {
  std::string name;
  std::uint64_t nonce = 0;  // drawn by the process: this life of the reader
  PeerId coordinator;
  std::string coordinator_address;  // for people
  std::uint32_t block_elements = kBlockElements;
  Instant silence_limit = std::chrono::seconds(60);            // until the job file says it
  std::function<PeerId(const std::string& endpoint)> connect;  // to a shard
  std::function<void(PeerId)> disconnect;
};

class ReaderCore {
 public:
  struct Wish {
    std::optional<Step> newer_than;  // nothing: any version
    bool optimizer_state = false;
    bool operator==(const Wish&) const = default;
  };
  // One version of the job, whole.
  struct Reading {
    Step step;  // without global steps: that every slot had reached before
    Generation generation;
    bool done = false;  // the job's last
    std::uint64_t updates = 0;
  };

  explicit ReaderCore(ReaderCoreOptions options);

  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  // Call at least every 10 ms while a call waits.
  void Tick(Instant now, Outbox* out);

  // A call begins that wants to know where the job is: fresh() says when it has been told since.
  void Refresh();
  bool fresh() const { return fresh_; }
  // A call begins that wants a version: answered() says when there is one, or never will be. The same wish again goes
  // on with the reading under way.
  void Want(const Wish& wish);
  bool answered() const { return reading_.has_value() || nothing_newer_; }
  // Once answered; nothing: the job is done and has no newer version.
  const std::optional<Reading>& reading() const { return reading_; }
  // Why the call cannot be answered.
  const Status& status() const { return status_; }
  // The job's end need not wait for this reader; it leaves by itself when it has the last version.
  void Leave(Outbox* out);

  // Once fresh.
  const View& view() const { return *view_; }
  // Empty before it is known.
  const std::string& job_file() const { return job_file_; }
  // Null before a worker has declared it.
  const Catalog* catalog() const { return catalog_.get(); }
  const std::vector<std::string>& state_names() const { return state_names_; }
  // The weights and then the states of reading(), each laid out flat; null: not fetched.
  const float* array(std::uint32_t index) const {
    return reading_ && index < arrays_.size() ? arrays_[index].get() : nullptr;
  }
  std::string WaitingFor() const;

 private:
  using Array = std::unique_ptr<float[]>;

  void On(const View& view, Instant now, Outbox* out);
  void SeeEnd(const View& view);
  Status TakeJob(const View& view);
  void AskCoordinator(Instant now, Outbox* out);
  std::optional<Step> NextVersion() const;
  // Ends a call for which the last version is too old; false: it may not be.
  bool AnswerNothingNewer(Outbox* out);
  void Continue(Instant now, Outbox* out);
  void Begin(Step step, Instant now, Outbox* out);
  bool MakeRoom(std::uint32_t arrays);
  Status ConnectShards();
  void Fail(Status status);

  const ReaderCoreOptions options_;
  std::optional<View> view_;
  JobId job_;
  std::string job_file_;
  bool has_global_steps_ = true;
  bool reads_kept_ = false;  // in allreduce: the versions that shards have
  std::uint64_t steps_ = 0;
  Instant silence_limit_;
  std::vector<std::string> state_names_;
  std::unique_ptr<Catalog> catalog_;
  std::vector<WeightsReader::Source> shards_;  // connected

  bool fresh_ = false;
  bool pulls_ = false;  // the call under way is for the wish
  std::optional<Wish> wish_;
  std::unique_ptr<WeightsReader> reader_;
  std::optional<Step> last_;  // the job's last version, once the job is known to be done
  bool has_last_ = false;     // or wants no more
  std::uint64_t ahead_ = 1;   // of a shard's step: what is asked for once it has passed a version
  bool looked_back_ = false;  // the call has asked for the present version although it waited for a later one
  Instant step_since_{};      // when the job was first heard to be at its step
  bool reads_last_ = false;   // the job was done before this reading began
  std::optional<Reading> reading_;
  bool nothing_newer_ = false;
  Status status_;
  std::vector<Array> arrays_;

  Instant next_question_{};
  std::optional<Instant> coordinator_heard_;
  Instant last_tick_{};
};

}  // namespace capstan::client
