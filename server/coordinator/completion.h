// Completion: what remains to do once all steps of a job are committed: its final weights are written, the job is
// concluded, and readers get time to fetch the last version (ReaderWait).
//
// Kind:   part of CoordinatorLoop, owned by its thread.
// Fails:  Advance returns the error if the weights cannot be read from the shards or written.
// Why:    if a shard is lost before the final weights are on disk, steps may have to be done again. So workers learn
//         that the job is over only once the weights are on disk, and the shards are asked to end last.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "common/config/job/limits_section.h"
#include "common/wire/actor.h"
#include "common/wire/transport.h"
#include "server/coordinator/reader_wait.h"

namespace capstan::server {

class Coordinator;
class FinalWeights;
class RunFiles;

class Completion {
 public:
  struct Options {
    // `core`, `files` and `transport` outlive the Completion.
    Coordinator* core = nullptr;
    RunFiles* files = nullptr;
    Transport* transport = nullptr;
    LimitsSection limits;
    std::function<void(const Notice&)> on_notice;  // may be empty
    std::function<bool()> stopped;  // whether the job was asked to stop: then Completion waits for no reader
  };

  explicit Completion(Options options);
  ~Completion();

  // Returns false if the message did not come over a connection that reads the final weights.
  bool Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  // Requires that the core's state is kFinished. Returns the job's outcome once its members may be asked to end.
  std::optional<Status> Advance(Instant now, Outbox* out);
  // Forgets the reading of final weights and the wait for readers. Called while the core's state is not kFinished, for
  // example after a shard was lost, and when the loop closes.
  void Reset();

 private:
  Status Begin();
  bool WaitsForReaders(Instant now);

  const Options options_;
  std::unique_ptr<FinalWeights> final_weights_;  // null: not begun
  std::optional<ReaderWait> wait_;               // since the weights are written, if there are readers
};

}  // namespace capstan::server
