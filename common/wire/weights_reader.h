// WeightsReader: fetches one version of all blocks from the shards.
//
// Kind:   owned by one thread; a pure core.
// Limits: kWindow blocks are asked for at a time per shard, or fewer as LinePace says, so that a reader that stands still
//         pins no more of it.
// Fails:  kCorrupt when more than kDamagedMax payloads of a shard do not match their hash or block, kInvalid when a
//         shard says so.
// Why:    whoever keeps a job's weights (a file, a program that follows the job) reads them as a worker does, without
//         a session.
//
// Of each block the weights come, and then, if they are asked for, the optimizer's states. With global steps all of
// them are of the version asked for; without, each block is whole and at least as new.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/backoff.h"
#include "common/data/catalog.h"
#include "common/wire/actor.h"
#include "common/wire/line_pace.h"
#include "common/wire/messages/shard_address.h"

namespace capstan {

struct Error;
struct Staged;
struct Weights;

class WeightsReader {
 public:
  static constexpr std::size_t kWindow = 16;
  static constexpr unsigned kDamagedMax = 8;  // TCP's checksum misses one in 2^16 of what a bad line damages

  struct Source {
    PeerId peer;
    ShardAddress address;
    bool operator==(const Source& other) const {
      return peer == other.peer && address.shard == other.address.shard &&
             address.incarnation == other.address.incarnation && address.endpoint == other.address.endpoint;
    }
  };
  // Called once for each array of each block; an error ends the reading with it.
  using OnBlock = std::function<Status(const Block& block, std::uint32_t array, const Slice& values)>;

  // `sources`: the shards in order of their index. `arrays`: 1, and one more for each state of the optimizer. `catalog`
  // outlives the reader.
  WeightsReader(const Catalog* catalog, std::vector<Source> sources, Generation generation, Version version,
                OnBlock on_block, std::uint32_t arrays = 1);

  // False: not from one of the sources.
  bool Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);

  bool done() const { return missing_ == 0; }
  const Status& status() const { return status_; }
  std::size_t missing() const { return missing_; }
  const std::vector<Source>& sources() const { return sources_; }
  Generation generation() const { return generation_; }
  Version version() const { return version_; }
  // The step of a shard that does not have the version any more: this reading will never be done.
  const std::optional<Step>& passed() const { return passed_; }
  // A shard has another life or generation than the one asked for: this reading will never be done.
  bool outdated() const { return outdated_; }
  // Whether what has arrived is said to be the job's last version.
  bool stop() const { return stop_; }
  // Of what has arrived, the block with the fewest; with global steps all have as many.
  std::uint64_t updates() const { return updates_.value_or(0); }
  // "shard 1 at tcp://10.0.0.7:29601 (3 of 12 blocks of version 8 are here)"; empty when done.
  std::string WaitingFor() const;

 private:
  struct Fetch {
    std::vector<BlockIndex> blocks;  // of the shard, in catalog order
    std::uint32_t array = 0;         // that is being fetched
    std::set<BlockIndex> wanted;     // of it neither here nor asked for
    std::map<BlockIndex, LinePace::Sent> asked;
    LinePace line;
    std::uint64_t sent = 0;  // over the line: blocks asked for, and questions
    unsigned damaged = 0;    // payloads
    Backoff turned_away_retry{0, kTurnedAway};
    bool turned_away = false;  // the shard is not as far yet
    bool waits = false;        // the pull waits there for its version

    std::size_t missing() const { return wanted.size() + asked.size(); }
  };
  static constexpr Instant kTurnedAway = std::chrono::milliseconds(10);

  void Tend(std::size_t shard, Instant now, Outbox* out);
  void AskMore(std::size_t shard, Instant now, Outbox* out);
  void SendPull(std::size_t shard, std::vector<BlockIndex> blocks, Outbox* out) const;
  void On(std::size_t shard, const Weights& weights, const Slice& payload, Instant now, Outbox* out);
  void On(std::size_t shard, const Staged& answer, Instant now, Outbox* out);
  Status Take(std::size_t shard, const Weights& weights, const Slice& payload, Instant now);
  void Lost(Fetch* fetch, BlockIndex block);
  void On(std::size_t shard, const Error& error, Instant now);

  const Catalog* const catalog_;
  const std::vector<Source> sources_;
  const Generation generation_;
  const Version version_;
  const OnBlock on_block_;
  const std::uint32_t arrays_;
  std::vector<Fetch> fetches_;  // by shard
  std::size_t missing_ = 0;
  std::optional<Step> passed_;
  bool outdated_ = false, stop_ = false;
  std::optional<std::uint64_t> updates_;
  Status status_;
};

}  // namespace capstan
