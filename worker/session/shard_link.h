// ShardLink: a session's connection to one shard: the shard's identity, pushes to the shard, and weights from it.
// ShardLinks: the links to all shards of a generation, and which block is on which shard.
//
// Kind:   part of Session's core.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/session/pull_line.h"
#include "worker/session/push_line.h"
#include "worker/session/shard_peer.h"

namespace capstan::session {

struct ShardLink {
  ShardLink(ShardPeer peer, std::uint64_t key, Instant first_wait, std::unique_ptr<PushCredit> credit,
            std::size_t* unstaged)
      : shard(std::move(peer)),
        up(&shard, LinePace(key, {first_wait, LinePace::kMostWait}), std::move(credit), unstaged),
        down(&shard, LinePace(key + 1, {first_wait, LinePace::kMostWait})) {}
  ShardLink(const ShardLink&) = delete;
  ShardLink& operator=(const ShardLink&) = delete;

  ShardIndex index() const { return shard.address.shard; }
  // Returns the mean time until the shard answers, of pushes or of pulls, whichever is longer.
  Instant usual() const { return std::max(up.pace().usual(), down.pace().usual()); }

  struct Question {
    Step step;              // the session's present step
    bool coverage = false;  // the session awaits this shard's coverage of the step
    bool any_ends = false;  // ends of slots are pending on some shard
  };
  // Sends a question (a numbered CoverageQuery) if an answer is overdue. A message is not sent again only because its
  // answer takes long: the question follows the message on the same line, and the shard's answer to the question says
  // what is lost. `pace`: that of `up` or of `down`. `awaited`: whether an answer is expected on that line.
  void AskWhenDue(LinePace* pace, bool awaited, const Question& question, Instant now, Outbox* out);

  ShardPeer shard;
  PushLine up;
  PullLine down;
  Instant last_message{};
  bool knows_us = true;  // false: it has answered that the coordinator has not named this session to it
};

class ShardLinks {
 public:
  struct Options {
    std::uint64_t key = 0;  // separates the jitter of different sessions
    Instant first_wait{};
    std::function<std::unique_ptr<PushCredit>()> make_credit;
  };
  struct Unconnected {
    std::string shard;  // the shard's name and address
    Status status;
  };
  using Connect = std::function<Result<PeerId>(const std::string& endpoint)>;

  // `context` outlives this.
  explicit ShardLinks(const SessionContext& context) : context_(context) {}
  ShardLinks(const ShardLinks&) = delete;
  ShardLinks& operator=(const ShardLinks&) = delete;

  // Drops all links, and makes links to a generation's shards. Returns a shard that cannot be connected to; nullopt if
  // all are connected.
  std::optional<Unconnected> Begin(const std::vector<ShardAddress>& shards, const Options& options,
                                   const Connect& connect, Instant now);
  // Returns the peers whose endpoints are not among those of `shards`.
  std::vector<PeerId> PeersNotIn(const std::vector<ShardAddress>& shards) const;

  // Begins to pull an array of a version from all shards.
  void BeginPull(Version version, PullKind kind, std::uint32_t array, Instant now, Outbox* out) {
    for (auto& [shard, link] : links_) link.down.Begin(version, kind, array, now, out);
  }

  ShardLink* Find(PeerId peer) const;
  ShardLink& At(ShardIndex shard) { return links_.at(shard); }
  // Returns null if there is no such block.
  ShardLink* OfBlock(BlockIndex block);
  const std::vector<ShardIndex>& placement() const { return placement_; }  // by block
  std::size_t size() const { return links_.size(); }
  std::size_t unstaged_pushes() const { return unstaged_; }
  std::size_t unsent_pushes() const;
  // Returns the oldest round with unacknowledged pushes to any shard.
  std::optional<PendingRound> OldestPush() const;

  auto begin() { return links_.begin(); }
  auto end() { return links_.end(); }
  auto begin() const { return links_.begin(); }
  auto end() const { return links_.end(); }
  template <class F>
  bool Any(const F& predicate) const {
    return std::any_of(links_.begin(), links_.end(), [&](const auto& entry) { return predicate(entry.second); });
  }

 private:
  const SessionContext& context_;
  std::map<ShardIndex, ShardLink> links_;
  std::map<PeerId, ShardLink*> by_peer_;
  std::vector<ShardIndex> placement_;
  std::size_t unstaged_ = 0;  // pushes of all links that no shard has staged
};

}  // namespace capstan::session
