#include "worker/session/uploads.h"

#include <utility>

#include "common/base/hash.h"

namespace capstan::session {

void Upload::SendNew(ShardLink* link, Instant now, Outbox* out) {
  ShardPeer& shard = link->shard;
  LinePace& pace = link->up.pace();
  owed_.SendNew(link->index(), [&](BlockIndex index) -> std::optional<LinePace::Sent> {
    const Block& block = shard.context.catalog->blocks()[index];
    const std::uint64_t bytes = arrays_.size() * block.count * sizeof(float);
    if (!pace.HasRoom(bytes)) return std::nullopt;
    for (std::uint32_t array = 0; array < arrays_.size(); ++array) {
      const Slice& flat = arrays_[array];
      const Slice part{flat.owner, flat.data + block.flat_offset * sizeof(float), block.count * sizeof(float)};
      UploadBlock upload{shard.context.generation,
                         shard.address.incarnation,
                         shard.context.session,
                         index,
                         Hash64(part.bytes()),
                         step_,
                         array,
                         index == 0 && array == 0 ? program_state_ : std::string()};
      out->Send(shard.peer, std::move(upload), part);
    }
    return pace.Send(++shard.sent, bytes, now);
  });
}

bool Upload::Acknowledge(ShardLink* link, const UploadAck& ack, Instant now) {
  return owed_.Acknowledge(link->index(), ack.blocks, now, &link->up.pace());
}

void Upload::Drop(ShardLinks* links) {
  for (auto& [shard, link] : *links) Lost(&link, UINT64_MAX);
  *this = {};
}

void Uploads::BeginInitial(const SessionContext& context, ShardLinks* links, Instant now, Outbox* out) {
  initial_of_ = context.generation;
  initial_ = Upload({}, {WholeBuffer(weights_)});
  for (const Segment& segment : context.catalog->segments()) {
    if (context.catalog->tensors()[segment.tensor].init.kind != InitKind::kFromWorker) continue;
    initial_.Add(links->placement()[segment.block], segment.block);
  }
  for (auto& [shard, link] : *links) initial_.SendNew(&link, now, out);
}

void Uploads::EndInitial(ShardLinks* links) {
  initial_.Drop(links);
  weights_ = {};
}

void Uploads::BeginVersion(Upload version, const std::vector<BlockIndex>& blocks, ShardLinks* links, Instant now,
                           Outbox* out) {
  version_.Drop(links);
  version_ = std::move(version);
  for (BlockIndex block : blocks) version_.Add(links->placement()[block], block);
  for (auto& [shard, link] : *links) version_.SendNew(&link, now, out);
}

void Uploads::Published(Version version, ShardLinks* links) {
  if (version.value > version_.step().value) version_.Drop(links);
}

void Uploads::Acknowledge(ShardLink* link, const UploadAck& ack, Instant now, Outbox* out) {
  if (initial_.Acknowledge(link, ack, now)) initial_.SendNew(link, now, out);
  if (ack.step != version_.step()) return;
  if (version_.Acknowledge(link, ack, now)) version_.SendNew(link, now, out);
}

void Uploads::SendLost(ShardLink* link, std::uint64_t question, Instant now, Outbox* out) {
  for (Upload* upload : {&initial_, &version_}) {
    upload->Lost(link, question);
    upload->SendNew(link, now, out);
  }
}

}  // namespace capstan::session
