// ShardTable: what the coordinator knows of the process that serves each shard of the job.
//
// Kind:   a value; part of a Job.
// Limits: the shard count of the job file; for each index one process that claims it, the newest one.
// Why:    anybody can send a Hello, so a number in it proves nothing. Of two live processes that claim one index, the
//         first keeps it. Another process takes over once the first one's connection has ended, which happens at once
//         when a process dies, or once it has been silent for long. A process without any of the snapshots that its
//         index has kept waits longer, because the process that has them may come back.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/shard_address.h"
#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

class Journal;

struct ShardEntry {
  // Another process that claims this index.
  struct Claim {
    PeerId peer;
    Incarnation incarnation;
    Instant since{};
  };

  std::optional<Hello> hello;  // from the newest incarnation; the process that sent it holds the index
  PeerId peer;
  Instant last_message{};
  bool gone = false;                // the connection of `peer` has ended
  bool has_our_term = false;        // it has sent a Hello with this coordinator's term
  bool has_begun = false;           // it has carried out the newest generation's Reset
  bool has_served = false;          // it has served a generation of this coordinator
  std::vector<SnapshotPart> parts;  // parts that a manifest names and this incarnation has or had
  std::string beyond_log;           // what the shard has seen that the log lacks; empty: nothing
  std::optional<Claim> claim;
  std::optional<Instant> bare_since;  // when a process without the index's snapshots first claimed it
  std::string bare_endpoint;          // the address of that process

  bool IsSilent(Instant now) const { return now - last_message >= kShardSilence; }
  bool Has(const SnapshotPart& part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }
};

class ShardTable {
 public:
  struct Patience {
    Instant silence{};  // a process that is silent for this long has lost its index to a process that claims it
    // How long a process without the snapshots of its index waits for the one that has them: if no process has held the
    // index since this coordinator's start, and if one has.
    Instant bare_at_start{}, bare{};
  };

  ShardTable(std::size_t count, std::uint32_t shards_per_server, Patience patience)
      : shards_(count), per_server_(shards_per_server), patience_(patience) {}

  std::size_t size() const { return shards_.size(); }
  const ShardEntry& operator[](ShardIndex shard) const { return shards_[shard]; }
  auto begin() const { return shards_.begin(); }
  auto end() const { return shards_.end(); }
  // Whether `from` is the process whose Hello for this index was accepted.
  bool Is(PeerId from, ShardIndex shard) const { return shard < shards_.size() && shards_[shard].peer == from; }
  // The name under which users start the shard.
  std::string NameOf(ShardIndex shard) const { return ShardName(shard, per_server_); }
  bool AllHaveOurTerm() const;
  bool AllHaveBegun() const;
  bool AnyIsBeyondLog() const;
  // Addresses in order of their indices; empty until all are known.
  std::vector<ShardAddress> Addresses() const;

  struct Refusal {
    PeerId to;
    Incarnation incarnation;
    std::string why;
    bool for_log = false;  // whether it is also logged
  };
  // kHolds: the process holds the index, or takes it over. kWaits: it is to say Hello again. kIgnored: a late message.
  enum class Claimed : std::uint8_t { kHolds, kWaits, kIgnored };
  struct Admission {
    Claimed claimed = Claimed::kWaits;
    bool asks_holder = false;        // the process that holds the index, `peer` of its entry, must be asked
    std::string waits_for;           // kWaits: the reason
    std::optional<Refusal> refusal;  // for a process that claims an index in vain
  };
  // Decides whether a Hello that has passed CheckHello is from the process that holds its index.
  Admission Admit(PeerId from, const Hello& hello, const Journal& journal, Instant now);
  // Takes a Hello from the process that holds its index. Returns whether another incarnation had the index before.
  bool Take(PeerId from, const Hello& hello, const Journal& journal, Instant now);
  // Notes that the connection of this process has ended. Returns the processes that claim what it held.
  std::vector<PeerId> NoteGone(PeerId peer);
  // Ends the claims on indices whose processes have answered since, and returns the refusals.
  std::vector<Refusal> RefuseClaims();
  // Notes what the shard has seen that the log lacks. Returns whether nothing was noted before.
  bool NoteBeyondLog(ShardIndex shard, std::string text);
  void NoteMessage(ShardIndex shard, Instant now) { shards_[shard].last_message = now; }
  // Leaves a pause of the coordinator, in which it read no messages, out of all times.
  void ForgivePause(Instant pause);
  // Notes that no shard has answered with the new term yet.
  void BeginTerm();
  // Notes that no shard has begun the new generation yet.
  void BeginGeneration();
  void NoteBegun(ShardIndex shard, Instant now);
  // Notes that every shard still serves the generation of an earlier coordinator.
  void NoteAllServe();
  // Call after a manifest was logged: forgets parts that no manifest names any more, and notes the newest one's parts.
  void NoteManifest(const Journal& journal);

 private:
  bool IsBare(const Hello& hello, const Journal& journal) const;
  Admission RefuseOlder(PeerId from, const Hello& hello, Instant now);
  void NoteClaim(PeerId from, const Hello& hello, Instant now);
  void Note(const SnapshotPart& part, const Journal& journal, ShardEntry* shard) const;

  std::vector<ShardEntry> shards_;
  std::uint32_t per_server_;
  Patience patience_;
};

}  // namespace capstan::server
