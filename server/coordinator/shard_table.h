// ShardTable: what the coordinator knows of the process that serves each shard of the job.
//
// Kind:   a value; part of a Job.
// Limits: the shard count of the job file.
// Why:    of two live processes that claim one index, the first keeps it. A process with the job's directory may take
//         over at once: only one process can lock a directory, so the process before it is dead.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/shard_address.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/recent_time.h"

namespace capstan::server {

class Journal;

struct ShardEntry {
  std::optional<Hello> hello;  // from the newest incarnation
  PeerId peer;
  Instant last_message{};
  bool has_our_term = false;        // it has sent a Hello with this coordinator's term
  bool has_begun = false;           // it has carried out the newest generation's Reset
  std::vector<SnapshotPart> parts;  // parts that a manifest names and this incarnation has or had
  std::string beyond_log;           // what the shard has seen that the log lacks; empty: nothing
  PeerId claimant;                  // another process that claims this index
  std::string claimant_principal;   // as Describe says it
  Instant claimed_since{};
  RecentTime<1> time;  // part of its time: handling messages

  bool IsSilent(Instant now) const { return now - last_message >= kShardSilence; }
  bool Has(const SnapshotPart& part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }
};

class ShardTable {
 public:
  ShardTable(std::size_t count, std::uint32_t shards_per_server) : shards_(count), per_server_(shards_per_server) {}

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
    std::string principal;  // of `to`, as Describe says it
    Incarnation incarnation;
    std::string why;
    bool for_log = false;  // whether it is also logged
  };
  struct Admission {
    bool accepted = false;
    bool is_new = false;             // it is the first Hello of this incarnation
    bool replaces = false;           // another incarnation had this index
    std::optional<Refusal> refusal;  // for a process that claims an index in vain
  };
  // Decides whether a Hello that has passed CheckHello is accepted, and takes it if so. `principal`: its sender's, as
  // Describe says it.
  Admission Admit(PeerId from, const std::string& principal, const Hello& hello, const Journal& journal, Instant now);
  // Notes what the shard has seen that the log lacks. Returns whether nothing was noted before.
  bool NoteBeyondLog(ShardIndex shard, std::string text);
  void NoteMessage(ShardIndex shard, Instant now) { shards_[shard].last_message = now; }
  // Leaves a pause of the coordinator, in which it read no messages, out of the shards' silence.
  void ForgivePause(Instant pause, Instant now);
  // Notes that no shard has answered with the new term yet.
  void BeginTerm();
  // Notes that no shard has begun the new generation yet.
  void BeginGeneration();
  void NoteBegun(ShardIndex shard, Instant now);
  // Call after a manifest was logged: forgets parts that no manifest names any more, and notes the newest one's parts.
  void NoteManifest(const Journal& journal);

 private:
  Admission CheckClaim(PeerId from, const std::string& principal, const Hello& hello, Instant now);
  void Note(const SnapshotPart& part, const Journal& journal, ShardEntry* shard) const;

  std::vector<ShardEntry> shards_;
  std::uint32_t per_server_;
};

}  // namespace capstan::server
