#include "server/shard/pull_queue.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "common/wire/messages/commit.h"
#include "common/wire/messages/weights.h"
#include "server/shard/shard_context.h"
#include "server/shard/step_engine.h"

namespace capstan::server {

namespace {

bool Has(const std::vector<BlockIndex>& blocks, BlockIndex block) {
  return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
}

std::uint32_t AttemptOf(const ServedStep& served) { return served.last_commit ? served.last_commit->attempt : 0; }

}  // namespace

// ---- which pulls wait ----------------------------------------------------------------------------------------------

void PullQueue::Take(PeerId from, const Pull& pull, bool readable, Instant now, Outbox* out) {
  // A worker that pulls another version than before, for example because it went back to an earlier step, no longer
  // waits for the version of its parked pull.
  if (const auto before = parked_.find(from); before != parked_.end() && before->second.pull.version != pull.version) {
    parked_.erase(before);
    CountParked();
  }
  PullAdmission admission = engine_.Admit(pull);
  if (admission == PullAdmission::kAnswer && !readable) admission = PullAdmission::kPark;
  switch (admission) {
    case PullAdmission::kAnswer: return AnswerAtOnce(from, pull, out);
    case PullAdmission::kStale: return shard_.Refuse(from, Code::kStale, "that version is gone", out);
    case PullAdmission::kTooEarly: return shard_.Refuse(from, Code::kBusy, "ahead of this shard", out);
    case PullAdmission::kPark: return Park(from, pull, now, out);
  }
}

// Parks a pull, in place of the peer's earlier parked pull. If the new pull has `follows`, the blocks that were sent
// speculatively for the earlier one are not sent again.
void PullQueue::Park(PeerId from, const Pull& pull, Instant now, Outbox* out) {
  Parked parked{pull, now, {}};
  if (const auto before = parked_.find(from); before != parked_.end()) {
    if (pull.follows) {
      parked.since = before->second.since;
      parked.sent = std::move(before->second.sent);
    }
    parked_.erase(before);
  }
  if (parked_.size() >= kWaitingMax) return shard_.Refuse(from, Code::kBusy, "too many pulls wait here", out);
  if (parked_.empty()) named_.assign(shard_.store->size(), false);
  for (BlockIndex block : pull.speculative) named_[shard_.index_of.at(block)] = true;
  SendSpeculative(from, &parked, out);
  parked_.emplace(from, std::move(parked));
  CountParked();
}

void PullQueue::AnswerReady(Instant now, Outbox* out) {
  std::erase_if(parked_, [&](const auto& entry) {
    const auto& [peer, parked] = entry;
    const PullAdmission admission = engine_.Admit(parked.pull);
    if (admission == PullAdmission::kAnswer) {
      shard_.metrics->pull_wait_seconds.Observe(std::chrono::duration<double>(now - parked.since).count());
      AnswerParked(peer, parked, out);
    }
    if (admission == PullAdmission::kStale) shard_.Refuse(peer, Code::kStale, "that version is gone", out);
    return admission != PullAdmission::kPark;
  });
  CountParked();
}

void PullQueue::SendUnsent(Outbox* out) {
  if (unsent_.empty()) return;
  for (auto& [peer, pull] : unsent_) {
    if (engine_.Admit(pull) == PullAdmission::kAnswer) {
      SendSome(peer, &pull, out);
    } else {
      shard_.Refuse(peer, Code::kStale, "that version is gone", out);
      pull.blocks.clear();
    }
  }
  std::erase_if(unsent_, [](const auto& entry) { return entry.second.blocks.empty(); });
  CountParked();
}

void PullQueue::Forget(PeerId peer) {
  parked_.erase(peer);
  unsent_.erase(peer);
  answered_.erase(peer);
  CountParked();
}

void PullQueue::Reset() {
  parked_.clear();
  unsent_.clear();
  named_.clear();
  answered_.clear();
  CountParked();
}

void PullQueue::CountParked() const {
  shard_.metrics->waiting_pulls.Set(static_cast<double>(parked_.size() + unsent_.size()));
}

// ---- speculative blocks --------------------------------------------------------------------------------------------

void PullQueue::OnPrepared(std::size_t index, Outbox* out) {
  if (!parked_.empty() && named_[index]) SendSpeculative(out);
}

void PullQueue::OnRedone() {
  for (auto& [peer, parked] : parked_) {
    for (BlockIndex block : std::exchange(parked.sent, {})) {
      if (!Has(parked.pull.speculative, block)) parked.pull.speculative.push_back(block);
    }
  }
}

void PullQueue::SendSpeculative(Outbox* out) {
  for (auto& [peer, parked] : parked_) SendSpeculative(peer, &parked, out);
}

void PullQueue::SendSpeculative(PeerId peer, Parked* parked, Outbox* out) {
  const Pull& pull = parked->pull;
  const auto speculation = engine_.speculation();
  if (!speculation || !pull.follows || pull.array != shard_.stepped_array() || pull.version != speculation->version)
    return;
  auto in_flight = static_cast<std::size_t>(std::count_if(
      parked->sent.begin(), parked->sent.end(), [&](BlockIndex block) { return Has(pull.speculative, block); }));
  for (BlockIndex block : pull.speculative) {
    if (in_flight >= kSpeculativeInFlightMax || shard_.options.room(peer) == 0) return;
    const std::size_t index = shard_.index_of.at(block);
    if (!engine_.IsPrepared(index) || Has(parked->sent, block)) continue;
    SendPrepared(peer, pull, index, out);
    parked->sent.push_back(block);
    ++in_flight;
  }
}

void PullQueue::SendPrepared(PeerId peer, const Pull& pull, std::size_t index, Outbox* out) const {
  Weights weights;
  weights.generation = shard_.generation;
  weights.incarnation = shard_.options.incarnation;
  weights.version = weights.asked = pull.version;
  weights.attempt = engine_.attempt();
  weights.speculative = true;
  weights.block = shard_.store->blocks()[index];
  weights.array = pull.array;
  weights.encoding = pull.encoding == Encoding::kFp32 ? Encoding::kFp32 : shard_.store->encoding(index);
  BlockStore::Sendable sendable = shard_.stepped().PreparedToSend(index, weights.encoding);
  weights.payload_hash = sendable.hash;
  out->Send(peer, std::move(weights), std::move(sendable.values));
}

// ---- answers -------------------------------------------------------------------------------------------------------

// Sends only the blocks that were not sent speculatively. If another attempt than theirs became the version, Published
// says so, and the worker pulls them again.
void PullQueue::AnswerParked(PeerId peer, const Parked& parked, Outbox* out) {
  Answered answered{parked.pull.session, parked.sent};
  Pull rest = parked.pull;
  std::erase_if(rest.blocks, [&](BlockIndex block) { return Has(answered.blocks, block); });
  Send(peer, rest, out);
  if (!rest.follows || !engine_.publishes()) return;
  answered.blocks.insert(answered.blocks.end(), rest.blocks.begin(), rest.blocks.end());
  answered_.insert_or_assign(peer, std::move(answered));
}

void PullQueue::AnswerAtOnce(PeerId peer, const Pull& pull, Outbox* out) {
  Pull rest = pull;
  const auto answered = answered_.find(peer);
  if (pull.follows && answered != answered_.end() && answered->second.session == pull.session) {
    std::vector<BlockIndex>& sent = answered->second.blocks;
    std::erase_if(rest.blocks, [&](BlockIndex block) { return Has(sent, block); });
    sent.insert(sent.end(), rest.blocks.begin(), rest.blocks.end());  // the worker's next pull may be in flight already
  }
  Send(peer, rest, out);
}

void PullQueue::Send(PeerId peer, const Pull& pull, Outbox* out) {
  if (!pull.blocks.empty() && !engine_.HasBlocksOf(pull.version, pull.array)) {
    return shard_.Refuse(peer, Code::kStale,
                         "version " + std::to_string(pull.version.value) +
                             " is with the workers alone; servers have version " +
                             std::to_string(shard_.served.blocks.version.value),
                         out);
  }
  if (pull.follows && engine_.publishes()) SendPublished(peer, out);
  SendBlocks(peer, pull, out);
}

// Blocks that the peer has no room for stay behind those of its earlier pull of the same version and array. What is
// left of another pull is dropped: its sender does not need it any more, or asks again.
void PullQueue::SendBlocks(PeerId peer, const Pull& pull, Outbox* out) {
  const auto earlier = unsent_.find(peer);
  const bool continues = earlier != unsent_.end() && earlier->second.version == pull.version &&
                         earlier->second.array == pull.array && earlier->second.encoding == pull.encoding;
  if (continues) {
    std::vector<BlockIndex>& blocks = earlier->second.blocks;
    for (BlockIndex block : pull.blocks) {
      if (blocks.size() < kBlocksMax && !Has(blocks, block)) blocks.push_back(block);
    }
    return;
  }
  if (earlier != unsent_.end()) unsent_.erase(earlier);
  Pull rest = pull;
  SendSome(peer, &rest, out);
  if (!rest.blocks.empty() && unsent_.size() < kWaitingMax) unsent_.emplace(peer, std::move(rest));
  CountParked();
}

void PullQueue::SendSome(PeerId peer, Pull* pull, Outbox* out) const {
  std::uint64_t room = shard_.options.room(peer);
  std::size_t sent = 0;
  for (; sent < pull->blocks.size() && room > 0; ++sent) {
    const BlockIndex block = pull->blocks[sent];
    SendBlock(peer, *pull, block, out);
    room -= std::min(room, out->envelopes.back().message.payload.size);
  }
  pull->blocks.erase(pull->blocks.begin(), pull->blocks.begin() + static_cast<std::ptrdiff_t>(sent));
}

void PullQueue::SendPublished(PeerId peer, Outbox* out) const {
  const ServedStep& served = shard_.served;
  Published published;
  published.generation = shard_.generation;
  published.incarnation = shard_.options.incarnation;
  published.version = served.version;
  published.attempt = AttemptOf(served);
  published.action = served.last_commit ? served.last_commit->action : StepAction::kApply;
  published.stop = served.parameters.stop;
  published.loss_scale = served.parameters.loss_scale;
  published.updates = served.parameters.updates;
  published.gradient_norm = served.parameters.gradient_norm;
  if (shard_.index_of.contains(0)) published.program_state = served.parameters.program_state;
  published.learning_rate = served.parameters.learning_rate;
  published.upload_next = served.parameters.upload_next;
  published.on_shards = served.parameters.on_shards;
  published.made_in = served.last_commit ? served.last_commit->generation : Generation{};
  out->Send(peer, std::move(published));
}

void PullQueue::SendBlock(PeerId peer, const Pull& pull, BlockIndex block, Outbox* out) const {
  const ServedStep& served = shard_.served;
  const std::size_t index = shard_.index_of.at(block);
  const StepEngine::BlockVersion has = engine_.VersionOf(index, pull.array);
  Weights weights;
  weights.generation = shard_.generation;
  weights.incarnation = shard_.options.incarnation;
  weights.version = has.version;
  weights.asked = pull.version;
  weights.attempt = AttemptOf(served);
  weights.block = block;
  weights.stop = served.parameters.stop && served.parameters.on_shards;
  weights.loss_scale = served.parameters.loss_scale;
  weights.array = pull.array;
  weights.updates = has.updates;
  weights.gradient_norm = served.parameters.gradient_norm;
  if (block == 0 && pull.array == 0) weights.program_state = served.blocks.program_state;
  BlockStore::Sendable sendable;
  if (pull.array == kMeanGradient) {
    weights.stop = served.parameters.stop;
    weights.skipped = served.last_commit && served.last_commit->action == StepAction::kSkip;
  }
  if (pull.array == shard_.stepped_array()) {
    weights.encoding = pull.encoding == Encoding::kFp32 ? Encoding::kFp32 : shard_.store->encoding(index);
    sendable = shard_.stepped().ToSend(index, weights.encoding);
  } else if (pull.array == 0) {
    sendable = shard_.store->ToSend(index, Encoding::kFp32);
  } else {
    sendable = shard_.store->StateToSend(index, pull.array - 1);
  }
  weights.payload_hash = sendable.hash;
  out->Send(peer, std::move(weights), std::move(sendable.values));
}

}  // namespace capstan::server
