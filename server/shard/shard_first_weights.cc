// How a shard gets first weights from a worker: block by block, and the first copy of a block counts. No worker reads them
// before a snapshot of version 0 exists on all shards.
#include "common/wire/messages/assign.h"
#include "server/shard/shard.h"
#include "server/shard/snapshot_load.h"

namespace capstan::server {

void Shard::On(PeerId from, const Assign& assign, const Slice& payload, Instant now, Outbox* out) {
  if (WorkersUpdate(context_.options.mode)) return OnMade(from, assign, payload, now, out);
  if (Status status = gate_.Check(context_, assign, payload); !status.ok()) {
    (status.code() == Code::kCorrupt ? context_.metrics->pushes_corrupt : context_.metrics->pushes_invalid).Add(1);
    return context_.Refuse(from, status.code(), status.message(), out, assign.block);
  }
  acknowledgements_.AddUpload(from, Step{0}, assign.block);
  if (gate_.Take(context_, assign, payload)) PinInitialWeights(now, out);
}

}  // namespace capstan::server
