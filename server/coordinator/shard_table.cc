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

// Accepts `hello` if it comes from the process that owns this index.
ShardTable::Admission ShardTable::CheckClaim(PeerId from, const std::string& principal, const Hello& hello,
                                             Instant now) {
  ShardEntry& shard = shards_[hello.shard];
  Admission admission;
  if (!shard.hello || (from == shard.peer && hello.incarnation == shard.hello->incarnation)) {
    if (shard.claimant.value != 0 && now > shard.claimed_since) {
      admission.refusal = Refusal{shard.claimant,
                                  shard.claimant_principal,
                                  {},
                                  NameOf(hello.shard) + " is already running at " + hello.endpoint +
                                      "; stop one of the two or give this one another --index"};
      shard.claimant = {};
    }
    admission.accepted = true;
    return admission;
  }
  if (from == shard.peer) {  // a Hello of an earlier incarnation is a late message
    admission.accepted = hello.incarnation > shard.hello->incarnation;
    return admission;
  }
  const bool owns = !hello.job.IsNull() || shard.IsSilent(now);
  if (owns && hello.incarnation > shard.hello->incarnation) {
    admission.accepted = true;
  } else if (shard.claimant != from) {  // the answer to the regular Ping shows whether the first process lives
    shard.claimant = from;
    shard.claimant_principal = principal;
    shard.claimed_since = now;
  } else if (owns && now - shard.claimed_since >= kShardSilence) {
    // A process that repeats Hello is alive: this is not a late message of an earlier incarnation.
    admission.refusal = Refusal{
        shard.claimant, principal, hello.incarnation,
        NameOf(hello.shard) + " at " + hello.endpoint + " begins with life " + std::to_string(hello.incarnation.value) +
            ", which is not above " + std::to_string(shard.hello->incarnation.value) + ", the life before it at " +
            shard.hello->endpoint +
            ": its directory is new or an old copy, and the clock of its machine is behind; set the clock, "
            "and start it again",
        true};
    shard.claimant = {};
  }
  return admission;
}

ShardTable::Admission ShardTable::Admit(PeerId from, const std::string& principal, const Hello& hello,
                                        const Journal& journal, Instant now) {
  Admission admission = CheckClaim(from, principal, hello, now);
  if (!admission.accepted) return admission;
  ShardEntry& shard = shards_[hello.shard];
  admission.replaces = shard.hello && hello.incarnation != shard.hello->incarnation;
  admission.is_new = !shard.hello || admission.replaces;
  if (admission.replaces) shard = {};
  shard.peer = from;
  shard.last_message = now;
  shard.claimant = {};
  shard.beyond_log.clear();
  // Within one incarnation a shard's generation and term only rise, so a late Hello must not replace a newer one.
  const bool is_late = shard.hello && (hello.term < shard.hello->term || hello.generation < shard.hello->generation);
  if (!is_late) shard.hello = hello;
  shard.time.Take(static_cast<std::uint64_t>(now / std::chrono::microseconds(1)), {hello.busy_us}, now);
  for (const SnapshotPart& part : hello.parts) Note(part, journal, &shard);
  shard.has_our_term = shard.has_our_term || hello.term == journal.term();
  return admission;
}

bool ShardTable::NoteBeyondLog(ShardIndex shard, std::string text) {
  return std::exchange(shards_[shard].beyond_log, std::move(text)).empty();
}

void ShardTable::ForgivePause(Instant pause, Instant now) {
  for (ShardEntry& shard : shards_) shard.last_message = std::min(shard.last_message + pause, now);
}

void ShardTable::BeginTerm() {
  for (ShardEntry& shard : shards_) shard.has_our_term = false;
}

void ShardTable::BeginGeneration() {
  for (ShardEntry& shard : shards_) shard.has_begun = false;
}

void ShardTable::NoteBegun(ShardIndex shard, Instant now) {
  shards_[shard].has_begun = true;
  shards_[shard].last_message = now;
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
