// Completion: what remains to do once all steps of a job are committed: its final weights are written, the job is
// concluded, and readers get one lease to fetch the last version.
//
// Kind:   part of CoordinatorLoop, owned by its thread.
// Fails:  Advance returns the error if the weights cannot be read from the shards or written.
// Why:    workers learn that the job is over only when its weights are on disk, and shards stay until they are read.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "common/config/job/limits_section.h"
#include "common/wire/actor.h"
#include "common/wire/transport.h"

namespace capstan::server {

class Coordinator;
class FinalWeights;
class RunFiles;

class Completion {
 public:
  struct Options {
    // These outlive this object.
    Coordinator* core = nullptr;
    RunFiles* files = nullptr;
    Transport* transport = nullptr;
    LimitsSection limits;
    std::function<void(const Notice&)> on_notice;  // may be empty
    std::function<bool()> stopped;  // returns whether the job was asked to stop: then no reader is waited for
  };

  explicit Completion(Options options);
  ~Completion();

  // Returns false if the message is not part of the final weights.
  bool Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  // Requires that the core is finished. Returns the job's outcome once its members may be told to end.
  std::optional<Status> Advance(Instant now, Outbox* out);
  // Starts over: the core is no longer finished, because a shard was lost and steps are done again.
  void Reset();

 private:
  Status Begin();
  bool WaitsForReaders(Instant now);

  const Options options_;
  std::unique_ptr<FinalWeights> final_weights_;  // null: not begun
  std::optional<Instant> readers_since_;         // when the wait for readers began, after the weights were written
};

}  // namespace capstan::server
