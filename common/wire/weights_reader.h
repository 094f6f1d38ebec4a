// WeightsReader: fetches one version of all blocks from the shards.
//
// Kind:   owned by one thread; a pure core.
// Limits: at most kWindow blocks per shard are requested at a time, or fewer if LinePace says so. So for a reader that
//         stops reading, a shard keeps at most these blocks in memory.
// Fails:  kCorrupt when more than kDamagedMax payloads of a shard do not match their hash or block, kInvalid when a
//         shard answers kInvalid, and the errors of OnBlock.
// Why:    the final weights' file and programs that follow the job read weights as a worker does, without a session.
//
// From each shard it fetches the weights of all blocks, then (if requested) the optimizer's states. With global steps
// everything is of the requested version. Without them each block is as new as the shard has it when it sends it.
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
  static constexpr unsigned kDamagedMax = 8;  // TCP's checksum lets one in 2^16 damaged segments pass

  struct Source {
    PeerId peer;
    ShardAddress address;
    bool operator==(const Source& other) const {
      return peer == other.peer && address.shard == other.address.shard &&
             address.incarnation == other.address.incarnation && address.endpoint == other.address.endpoint;
    }
  };
  // Called once for each array of each block. If it returns an error, the reading ends with that error.
  using OnBlock = std::function<Status(const Block& block, std::uint32_t array, const Slice& values)>;

  // `sources`: the shards in order of their index. `arrays`: 1, plus one for each optimizer state to read. `catalog`
  // must outlive the reader.
  WeightsReader(const Catalog* catalog, std::vector<Source> sources, Generation generation, Version version,
                OnBlock on_block, std::uint32_t arrays = 1);

  // Returns false if `from` is not one of the sources.
  bool Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);

  bool done() const { return missing_ == 0; }
  const Status& status() const { return status_; }
  std::size_t missing() const { return missing_; }
  const std::vector<Source>& sources() const { return sources_; }
  Generation generation() const { return generation_; }
  Version version() const { return version_; }
  // The step of a shard that no longer has the version. If it is set, this reading cannot complete.
  const std::optional<Step>& passed() const { return passed_; }
  // Whether a shard answered that it has another incarnation or generation than was asked for. If so, the caller should
  // give up this reading.
  bool outdated() const { return outdated_; }
  // Whether a shard marked the received weights as the job's last version.
  bool stop() const { return stop_; }
  // The smallest number of updates in a received block; with global steps all blocks have the same number.
  std::uint64_t updates() const { return updates_.value_or(0); }
  // With global steps: the norm of the gradient that made the version, as the shards have it; else 0.
  double gradient_norm() const { return gradient_norm_; }
  // Names the shards that the reading waits for, such as "shard 1 at tcp://10.0.0.7:29601 (3 of 12 blocks of version 8
  // are here)"; empty when done.
  std::string WaitingFor() const;

 private:
  struct Fetch {
    std::vector<BlockIndex> blocks;  // the shard's blocks, in catalog order
    std::uint32_t array = 0;         // the array that is being fetched
    std::set<BlockIndex> wanted;     // blocks whose `array` is neither here nor requested
    std::map<BlockIndex, LinePace::Sent> asked;
    LinePace line;
    std::uint64_t sent = 0;  // blocks and questions sent on this line so far
    unsigned damaged = 0;    // damaged payloads received
    Backoff turned_away_retry{0, kTurnedAway};
    bool turned_away = false;  // the shard has not reached the version yet
    bool waits = false;        // the pull is parked at the shard until its version exists

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
  double gradient_norm_ = 0.0;
  Status status_;
};

}  // namespace capstan
