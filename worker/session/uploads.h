// Uploads: blocks that this session's worker uploads to their shards: the job's initial weights, and in allreduce the
// versions that its steps make.
//
// Kind:   owned by the Session; part of its core.
// Limits: OwedBlocks::kWindow unacknowledged blocks per shard in flight, fewer if the line has no room.
// Why:    if a generation ends before version 0 is on disk, the next generation asks for the initial weights again. So
//         they stay in memory until the first round of work, which shows that version 0 is on disk.
#pragma once

#include <string>
#include <vector>

#include "common/base/buffer.h"
#include "common/wire/messages/upload_block.h"
#include "worker/session/owed_blocks.h"
#include "worker/session/shard_link.h"

namespace capstan::session {

// Blocks of one version that shards have not acknowledged.
class Upload {
 public:
  Upload() = default;
  // `arrays`: the weights and, except for initial weights, then the optimizer's states; each for the whole catalog.
  // `program_state`: goes with the weights of block 0.
  Upload(Step step, std::vector<Slice> arrays, std::string program_state = {})
      : step_(step), arrays_(std::move(arrays)), program_state_(std::move(program_state)) {}

  void Add(ShardIndex shard, BlockIndex block) { owed_.Add(shard, block); }
  void SendNew(ShardLink* link, Instant now, Outbox* out);
  // Returns whether the shard acknowledged a block that was not acknowledged before.
  bool Acknowledge(ShardLink* link, const UploadAck& ack, Instant now);
  // Call when the shard has answered message `question`. Unacknowledged blocks that were sent before that message are
  // lost, and SendNew sends them again.
  void Lost(ShardLink* link, std::uint64_t question) { owed_.Lost(link->index(), question, &link->up.pace()); }
  // Forgets the blocks: no acknowledgement is expected any more.
  void Drop(ShardLinks* links);
  bool owes(ShardIndex shard) const { return owed_.owes(shard); }
  Step step() const { return step_; }

 private:
  Step step_;
  std::vector<Slice> arrays_;
  std::string program_state_;
  OwedBlocks owed_;
};

class Uploads {
 public:
  // Takes the initial weights of all tensors in the declared order, without gaps; only those of kFromWorker tensors are
  // used. Null: this worker has none.
  void Bring(BufferRef weights) { weights_ = std::move(weights); }
  bool has_initial() const { return static_cast<bool>(weights_); }
  // Returns the generation for which the initial weights were last uploaded.
  Generation initial_of() const { return initial_of_; }
  // Starts to upload the initial weights, because the generation of `context` asks for them.
  void BeginInitial(const SessionContext& context, ShardLinks* links, Instant now, Outbox* out);
  // Drops the initial weights. Call when version 0 is on disk, so that no generation will ask for them again.
  void EndInitial(ShardLinks* links);

  // Starts to upload these blocks of `version`, and drops the upload before it.
  void BeginVersion(Upload version, const std::vector<BlockIndex>& blocks, ShardLinks* links, Instant now, Outbox* out);
  // Drops the upload of this version or an earlier one, because this version is published.
  void Published(Version version, ShardLinks* links);

  // Drops all uploads. A new generation asks again for what it needs, perhaps another worker.
  void EnterGeneration() { initial_ = version_ = {}; }

  void Acknowledge(ShardLink* link, const UploadAck& ack, Instant now, Outbox* out);
  // Takes the shard's answer to message `question`: blocks that were sent before the question and are not acknowledged
  // by now are lost, and are sent again.
  void SendLost(ShardLink* link, std::uint64_t question, Instant now, Outbox* out);
  bool owes(ShardIndex shard) const { return initial_.owes(shard) || version_.owes(shard); }
  bool owes_initial(ShardIndex shard) const { return initial_.owes(shard); }

 private:
  BufferRef weights_;
  Generation initial_of_;
  Upload initial_, version_;
};

}  // namespace capstan::session
