// SnapshotLoad: loads the snapshot that a Reset names into a shard, from its own disk and from other shards.
//
// Kind:   owned by the Shard, from Reset until the shard serves.
// Limits: at most kFetchesMax requests to other shards in flight, and only what the windows of their lines (LinePace)
//         allow.
// Fails:  status(): no shard has a part, or a part is damaged or does not fit the job, its model or its optimizer. The
//         shard then does not serve.
// Why:    a different number of shards may have written the snapshot. Block boundaries do not depend on that number, so
//         each shard fetches the blocks that it is to serve from the shards that have them.
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
    std::vector<ShardIndex> part_of_block;  // for each block: the shard that wrote it
    std::vector<LoadTarget> targets;        // this shard's blocks, in catalog order
    std::vector<SnapshotPart> own_parts;    // on this shard's disk
    std::function<PeerId(const std::string& endpoint)> connect;
  };
  explicit SnapshotLoad(Options options);

  // Returns the request to this shard's disk; nullopt if the disk has no part of the snapshot.
  std::optional<LoadSnapshot> TakeWork();
  void Handle(SnapshotLoaded result, Instant now, Outbox* out);
  void Handle(PeerId from, const Fetched& fetched, const Slice& payload, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  // Takes new addresses of the shards that have the parts, and requests missing blocks there. `again`: the same Reset,
  // sent again.
  void Redirect(const Reset& again);

  const Reset& reset() const { return options_.reset; }
  const Status& status() const { return failure_; }
  bool done() const { return failure_.ok() && !own_pending_ && headers_left_ == 0 && !wants() && fetching_.empty(); }
  // Returns a block's entry in the headers; null if there is no snapshot (version 0). `target`: the block's position in
  // the targets. Requires done().
  const SnapshotHeader::BlockEntry* entry(std::size_t target) const;
  // Returns the entries of all targets, as entry() does.
  std::vector<const SnapshotHeader::BlockEntry*> entries() const;
  // The headers of all parts, in the order of parts.
  const std::vector<SnapshotHeader>& headers() const { return headers_; }
  // Names what the load waits for, such as "its disk" or "block 7 from tcp://10.0.0.7:29601"; empty if it waits for
  // nothing.
  std::string WaitingFor() const;

 private:
  struct Fetching {
    std::size_t target = SIZE_MAX;  // SIZE_MAX: the part's header
    std::uint32_t arrays_left = 0;  // one bit for each missing array
    LinePace::Sent sent = {};
  };
  using Key = std::pair<ShardIndex, BlockIndex>;
  struct PartFetch {
    PeerId holder;               // null: the part is on this shard's disk
    LinePace line;               // the holder's line
    std::uint64_t question = 0;  // number of the oldest unanswered request for kFetchQuestion; 0: none
    std::deque<std::pair<BlockIndex, Fetching>> wanted;
  };

  bool IsOwn(ShardIndex part) const;
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
  std::vector<SnapshotHeader> headers_;                           // by part; its part_count is 0 until it has arrived
  std::map<ShardIndex, std::vector<std::string>> header_pieces_;  // by part; empty: not received yet
  std::vector<PartFetch> parts_;
  std::size_t headers_left_ = 0;  // headers missing from other shards
  bool own_pending_ = false;
  std::map<Key, Fetching> fetching_;
  std::uint64_t sent_ = 0;  // requests sent so far
};

}  // namespace capstan::server
