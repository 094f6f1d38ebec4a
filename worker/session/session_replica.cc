// Session in mode allreduce: it forms the generation's group, and uploads versions to the shards.
#include <algorithm>

#include "common/base/hash.h"
#include "common/wire/messages/assign.h"
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/view.h"
#include "worker/session/session.h"
#include "worker/session/shard_link.h"

namespace capstan::client {

void Session::SayGroup(Generation generation, GroupState state, std::string text, Instant now, Outbox* out) {
  if (ended_ || left_ || generation != generation_) return;
  group_->Report(state, std::move(text));
  if (session_.value != 0) SendBeat(now, out);  // otherwise the next session's first Beat reports it
}

void Session::Give(std::uint64_t round, std::vector<Slice> arrays, const std::vector<BlockIndex>& blocks, Instant now,
                   Outbox* out) {
  if (round != round_ || !announced_) return;
  ForgetOwed(false);
  made_ = {step_, std::move(arrays), {}};
  for (BlockIndex block : blocks) made_.owed.Add(placement_[block], block);
  for (auto& [shard, link] : *links_) SendMade(&link, now, out);
}

void Session::SendMade(ShardLink* link, Instant now, Outbox* out) {
  made_.owed.SendNew(link->address.shard, [&](BlockIndex index) {
    const Block& block = catalog_->blocks()[index];
    const std::uint64_t bytes = made_.arrays.size() * block.count * sizeof(float);
    if (!link->up.HasRoom(bytes)) return std::optional<LinePace::Sent>();
    for (std::uint32_t array = 0; array < made_.arrays.size(); ++array) {
      const Slice& flat = made_.arrays[array];
      const Slice part{flat.owner, flat.data + block.flat_offset * sizeof(float), block.count * sizeof(float)};
      Assign assign{generation_, link->address.incarnation, session_, index, Hash64(part.bytes()), made_.step, array};
      out->Send(link->peer, std::move(assign), part);
    }
    return std::optional(link->up.Send(++link->sent, bytes, now));
  });
}

}  // namespace capstan::client
