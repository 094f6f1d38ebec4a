// SnapshotLoad: a shard on its way to the version that a Reset names: what is read from its own disk, and what is
// fetched from the shards that have it.
//
// Kind:   owned by the Shard, from Reset until the last block is there.
// Limits: kFetchesMax requests under way, or fewer as LinePace says.
// Fails:  status(): a part that is damaged, of another job, or of another model. Nothing of it is served.
// Why:    a snapshot may have been written by another number of shards; block boundaries do not depend on it, so each
//         shard takes the blocks that are its own now from whoever has them.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/data/catalog.h"
#include "common/wire/actor.h"
#include "common/wire/line_pace.h"
#include "common/wire/messages/reset.h"
#include "server/storage/shard_disk.h"

namespace capstan {
struct Fetched;
}  // namespace capstan

namespace capstan::server {

class SnapshotLoad {
 public:
  static constexpr std::size_t kFetchesMax = 16;

  struct Options {
    Reset reset;
    std::uint64_t catalog_hash = 0;
    std::uint32_t array_count = 1;
    std::vector<ShardIndex> part_of_block;  // by block: the shard that wrote it
    std::vector<LoadTarget> targets;        // this shard's blocks, in catalog order
    std::vector<SnapshotPart> own_parts;    // on this shard's disk
    std::function<PeerId(const std::string& endpoint)> connect;
  };
  explicit SnapshotLoad(Options options);

  // What this shard's disk is to read; none when it has nothing of the snapshot.
  std::optional<LoadSnapshot> TakeWork();
  void Handle(SnapshotLoaded result, Instant now, Outbox* out);
  void Handle(PeerId from, const Fetched& fetched, const Slice& payload, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  // The same parts, perhaps at other endpoints: what is still missing is asked for there.
  void Redirect(const std::vector<Reset::Source>& sources);

  const Reset& reset() const { return options_.reset; }
  const Status& status() const { return failure_; }
  bool done() const { return failure_.ok() && !local_pending_ && headers_left_ == 0 && !wants() && fetching_.empty(); }
  // Requires done(). By position in the targets; null in version 0.
  const SnapshotHeader::Block* entry(std::size_t target) const;
  // Of all parts, in their order.
  const std::vector<SnapshotHeader>& headers() const { return headers_; }
  // "block 7 from tcp://10.0.0.7:29601": what is waited for; empty when nothing from others.
  std::string WaitingFor() const;

 private:
  struct Fetching {
    std::size_t target = SIZE_MAX;  // SIZE_MAX: the part's header
    std::uint32_t arrays_left = 0;  // one bit for each
    LinePace::Sent sent = {};
  };
  using Key = std::pair<ShardIndex, BlockIndex>;
  struct Part {
    PeerId holder;               // nobody: it is on this disk
    LinePace line;               // from the holder
    std::uint64_t question = 0;  // number of the oldest request for kFetchQuestion without an answer; 0: there is none
    std::deque<std::pair<BlockIndex, Fetching>> wanted;
  };

  bool IsLocal(ShardIndex part) const;
  Status CheckHeader(const SnapshotHeader& header, ShardIndex part) const;
  Status TakeHeader(SnapshotHeader header, ShardIndex part);
  Result<bool> TakeHeaderPiece(const Fetched& fetched, const Slice& payload);
  Status TakeArray(const Fetched& fetched, const Slice& payload, Fetching* fetching);
  void FetchMore(ShardIndex first, Instant now, Outbox* out);
  void Send(ShardIndex part, BlockIndex block, Fetching fetching, Instant now, Outbox* out);
  void FetchAgain(ShardIndex part, std::uint64_t before, Instant now, Outbox* out);
  std::uint64_t BytesOf(const Fetching& fetching) const;
  bool wants() const;
  void Fail(Status status);

  Options options_;
  Status failure_;
  std::vector<SnapshotHeader> headers_;                           // by part; part_count 0 until it is here
  std::map<ShardIndex, std::vector<std::string>> header_pieces_;  // of headers under way; empty: not here yet
  std::vector<Part> parts_;
  std::size_t headers_left_ = 0;  // from others
  bool local_pending_ = false;
  std::map<Key, Fetching> fetching_;
  std::uint64_t sent_ = 0;  // requests
};

}  // namespace capstan::server
