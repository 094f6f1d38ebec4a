#include "server/coordinator/shard_table.h"

#include <utility>

#include "server/coordinator/journal.h"

namespace capstan::server {

bool ShardTable::AllHaveOurTerm() const {
  return std::all_of(begin(), end(), [](const ShardEntry& shard) { return shard.has_our_term; });
}

bool ShardTable::AllHaveBegun() const {
  return std::all_of(begin(), end(), [](const ShardEntry& shard) { return shard.has_begun; });
}

bool ShardTable::AnyIsBeyondLog() const {
  return std::any_of(begin(), end(), [](const ShardEntry& shard) { return !shard.beyond_log.empty(); });
}

std::vector<ShardAddress> ShardTable::Addresses() const {
  std::vector<ShardAddress> addresses;
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    if (!shards_[i].hello) return {};
    addresses.push_back({i, shards_[i].hello->incarnation, shards_[i].hello->endpoint});
  }
  return addresses;
}

void ShardTable::NoteClaim(PeerId from, const Hello& hello, Instant now) {
  std::optional<ShardEntry::Claim>& claim = shards_[hello.shard].claim;
  if (!claim || claim->peer != from) claim = ShardEntry::Claim{from, hello.incarnation, now};
}

// Refuses a process whose incarnation is below the one that had the index before it. A single Hello may be a late
// message of an earlier incarnation, which needs no answer; a process that repeats it is alive.
ShardTable::Admission ShardTable::RefuseOlder(PeerId from, const Hello& hello, Instant now) {
  ShardEntry& shard = shards_[hello.shard];
  NoteClaim(from, hello, now);
  Admission admission{Claimed::kIgnored, false, {}, {}};
  if (now - shard.claim->since < kShardSilence) return admission;
  admission.refusal =
      Refusal{from, hello.incarnation,
              NameOf(hello.shard) + " at " + hello.endpoint + " begins with life " +
                  std::to_string(hello.incarnation.value) + ", which is not above " +
                  std::to_string(shard.hello->incarnation.value) + ", the life before it at " + shard.hello->endpoint +
                  ": its directory is new or an old copy, and the clock of its machine is behind; set the clock, "
                  "and start it again",
              true};
  shard.claim.reset();
  return admission;
}

// Whether the process has none of the snapshots that its index has written. It needs none if another shard has what this
// index wrote of the newest one, as where servers have got others' directories.
bool ShardTable::IsBare(const Hello& hello, const Journal& journal) const {
  if (!journal.LacksSnapshots(hello.shard, hello.parts)) return false;
  const ManifestRecord& newest = journal.manifests().back();
  if (hello.shard >= newest.digests.size()) return false;
  const SnapshotPart part{newest.id, hello.shard, newest.digests[hello.shard]};
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    if (i != hello.shard && shards_[i].Has(part)) return false;
  }
  return true;
}

ShardTable::Admission ShardTable::Admit(PeerId from, const Hello& hello, const Journal& journal, Instant now) {
  ShardEntry& shard = shards_[hello.shard];
  if (shard.hello && from == shard.peer) {
    const bool late = hello.incarnation < shard.hello->incarnation;
    // After the end of its connection this may be the last message before that, or the process has connected again.
    return {late ? Claimed::kIgnored : Claimed::kHolds, !late && shard.gone, {}, {}};
  }
  if (shard.hello && !shard.gone && now - shard.last_message < patience_.silence) {
    const bool is_new = !shard.claim || shard.claim->peer != from;
    NoteClaim(from, hello, now);
    return {Claimed::kWaits, is_new, NameOf(hello.shard) + " at " + shard.hello->endpoint + " to answer or to end", {}};
  }
  if (shard.has_served && hello.incarnation <= shard.hello->incarnation) return RefuseOlder(from, hello, now);
  if (!IsBare(hello, journal)) return {Claimed::kHolds, false, {}, {}};
  if (!shard.bare_since) shard.bare_since = now;
  shard.bare_endpoint = hello.endpoint;
  const Instant patience = shard.hello ? patience_.bare : patience_.bare_at_start;
  if (now - *shard.bare_since >= patience) return {Claimed::kHolds, false, {}, {}};
  return {Claimed::kWaits, false, "the process that has the snapshots of " + NameOf(hello.shard), {}};
}

bool ShardTable::Take(PeerId from, const Hello& hello, const Journal& journal, Instant now) {
  ShardEntry& shard = shards_[hello.shard];
  const bool replaces = shard.hello && hello.incarnation != shard.hello->incarnation;
  if (replaces) shard = {};
  shard.peer = from;
  shard.last_message = now;
  shard.gone = false;
  shard.bare_since.reset();
  shard.beyond_log.clear();
  // Within one incarnation a shard's generation and term only rise, so a late Hello must not replace a newer one.
  const bool is_late = shard.hello && (hello.term < shard.hello->term || hello.generation < shard.hello->generation);
  if (!is_late) shard.hello = hello;
  for (const SnapshotPart& part : hello.parts) Note(part, journal, &shard);
  shard.has_our_term = shard.has_our_term || hello.term == journal.term();
  return replaces;
}

std::vector<PeerId> ShardTable::NoteGone(PeerId peer) {
  std::vector<PeerId> claimants;
  for (ShardEntry& shard : shards_) {
    if (shard.claim && shard.claim->peer == peer) shard.claim.reset();
    if (shard.peer != peer || std::exchange(shard.gone, true) || !shard.claim) continue;
    claimants.push_back(shard.claim->peer);
  }
  return claimants;
}

std::vector<ShardTable::Refusal> ShardTable::RefuseClaims() {
  std::vector<Refusal> refusals;
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    ShardEntry& shard = shards_[i];
    if (!shard.claim || !shard.hello || shard.gone || shard.last_message <= shard.claim->since) continue;
    refusals.push_back({shard.claim->peer, shard.claim->incarnation,
                        NameOf(i) + " is already running at " + shard.hello->endpoint +
                            "; stop one of the two or give this one another --index"});
    shard.claim.reset();
  }
  return refusals;
}

bool ShardTable::NoteBeyondLog(ShardIndex shard, std::string text) {
  return std::exchange(shards_[shard].beyond_log, std::move(text)).empty();
}

void ShardTable::ForgivePause(Instant pause) {
  for (ShardEntry& shard : shards_) {
    shard.last_message += pause;
    if (shard.claim) shard.claim->since += pause;
    if (shard.bare_since) *shard.bare_since += pause;
  }
}

void ShardTable::BeginTerm() {
  for (ShardEntry& shard : shards_) shard.has_our_term = false;
}

void ShardTable::BeginGeneration() {
  for (ShardEntry& shard : shards_) shard.has_begun = false;
}

void ShardTable::NoteBegun(ShardIndex shard, Instant now) {
  shards_[shard].has_begun = shards_[shard].has_served = true;
  shards_[shard].last_message = now;
}

void ShardTable::NoteAllServe() {
  for (ShardEntry& shard : shards_) shard.has_served = true;
}

void ShardTable::Note(const SnapshotPart& part, const Journal& journal, ShardEntry* shard) const {
  if (!shard->Has(part) && journal.Names(part)) shard->parts.push_back(part);
}

void ShardTable::NoteManifest(const Journal& journal) {
  const ManifestRecord& newest = journal.manifests().back();
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    std::erase_if(shards_[i].parts, [&](const SnapshotPart& part) { return !journal.Names(part); });
    Note({newest.id, i, newest.digests[i]}, journal, &shards_[i]);
  }
}

}  // namespace capstan::server
