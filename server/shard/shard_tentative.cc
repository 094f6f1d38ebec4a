// Speculative weights: a shard sends prepared blocks to waiting workers before the coordinator has decided the step.
//
// A worker's pull of the next version waits here and names blocks that the worker can buffer. The shard sends each
// block once per attempt, as soon as it is prepared. At most kAheadMax are in flight: the worker's next pull names the
// blocks still missing. Published then names the attempt that became the version; blocks of other attempts are void. A
// repeated pull that crosses Published gets Published again, but no block twice. A worker asks for lost blocks with a
// pull that waits for nothing.
#include <algorithm>

#include "common/wire/messages/commit.h"
#include "common/wire/messages/weights.h"
#include "server/shard/admission.h"
#include "server/shard/parked_pull.h"
#include "server/shard/shard.h"

namespace capstan::server {

namespace {

bool Has(const std::vector<BlockIndex>& blocks, BlockIndex block) {
  return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
}

}  // namespace

// Otherwise a Redo is certain or likely: a job that clipped the last step's gradient probably clips this one too.
bool Shard::MayBePublished() const {
  if (TakesTrustRatio(context_.options.optimizer.kind)) return !trust_ratios_.empty();
  return attempt_ > 0 || !context_.served.last_commit || context_.served.last_commit->attempt == 0;
}

void Shard::SendAhead(Outbox* out) {
  for (auto& [peer, parked] : parked_) SendAhead(&parked, out);
}

void Shard::SendAhead(ParkedPull* parked, Outbox* out) {
  const Pull& pull = parked->pull;
  if (!HasGlobalSteps(context_.options.mode) || !pull.follows || pull.array != 0) return;
  if (pull.version != context_.served.version.Next() || !MayBePublished()) return;
  auto on_their_way = static_cast<std::size_t>(std::count_if(parked->sent.begin(), parked->sent.end(),
                                                             [&](BlockIndex block) { return Has(pull.ahead, block); }));
  for (BlockIndex block : pull.ahead) {
    if (on_their_way >= kAheadMax) return;
    const std::size_t local = context_.local_of[block];
    if (!progress_[local].prepared || !context_.store->is_prepared(local) || Has(parked->sent, block)) continue;
    SendTentative(parked->peer, pull, local, out);
    parked->sent.push_back(block);
    ++on_their_way;
  }
}

void Shard::SendTentative(PeerId peer, const Pull& pull, std::size_t local, Outbox* out) {
  Weights weights;
  weights.generation = context_.generation;
  weights.incarnation = context_.options.incarnation;
  weights.version = weights.asked = pull.version;
  weights.attempt = attempt_;
  weights.tentative = true;
  weights.block = context_.store->blocks()[local];
  weights.encoding = pull.encoding == Encoding::kFp32 ? Encoding::kFp32 : context_.store->encoding(local);
  BlockStore::Sendable sendable = context_.store->PreparedToSend(local, weights.encoding);
  weights.payload_hash = sendable.hash;
  out->Send(peer, std::move(weights), std::move(sendable.values));
}

// Another attempt begins: the blocks sent for the old one are void and will be sent again.
void Shard::TakeBackAhead() {
  for (auto& [peer, parked] : parked_) {
    for (BlockIndex block : std::exchange(parked.sent, {})) {
      if (!Has(parked.pull.ahead, block)) parked.pull.ahead.push_back(block);
    }
  }
}

// The worker may have been given another slot of this step. It then drops its speculative blocks and will ask again.
void Shard::StopAhead(PeerId peer) {
  if (const auto parked = parked_.find(peer); parked != parked_.end()) {
    parked->second.pull.ahead.clear();
    parked->second.sent.clear();
  }
  answered_.erase(peer);
}

void Shard::SendPublished(PeerId peer, Outbox* out) const {
  Published published;
  published.generation = context_.generation;
  published.incarnation = context_.options.incarnation;
  published.version = context_.served.version;
  published.attempt = context_.served.last_commit ? context_.served.last_commit->attempt : 0;
  published.action = context_.served.last_commit ? context_.served.last_commit->action : StepAction::kApply;
  published.stop = context_.served.parameters.stop;
  published.loss_scale = context_.served.parameters.loss_scale;
  published.updates = context_.served.parameters.updates;
  if (context_.local_of.contains(0)) published.program_state = context_.served.parameters.program_state;
  published.learning_rate = context_.served.parameters.learning_rate;
  published.keep = context_.served.parameters.keep;
  published.held = context_.served.parameters.held;
  published.made_in = context_.served.last_commit ? context_.served.last_commit->generation : Generation{};
  out->Send(peer, std::move(published));
}

// Sends only the blocks that were not sent speculatively. If those are void, the worker learns it from Published and
// asks for them.
void Shard::AnswerWaiting(const ParkedPull& parked, Outbox* out) {
  AnsweredPull answered{parked.pull.session, parked.sent};
  Pull pull = parked.pull;
  std::erase_if(pull.blocks, [&](BlockIndex block) { return Has(answered.blocks, block); });
  AnswerPull(parked.peer, pull, out);
  if (!pull.follows || !HasGlobalSteps(context_.options.mode)) return;
  answered.blocks.insert(answered.blocks.end(), pull.blocks.begin(), pull.blocks.end());
  answered_.insert_or_assign(parked.peer, std::move(answered));
}

void Shard::AnswerLate(PeerId peer, const Pull& pull, Outbox* out) {
  Pull rest = pull;
  const auto answered = answered_.find(peer);
  if (pull.follows && answered != answered_.end() && answered->second.session == pull.session) {
    std::erase_if(rest.blocks, [&](BlockIndex block) { return Has(answered->second.blocks, block); });
    std::vector<BlockIndex>& told = answered->second.blocks;
    told.insert(told.end(), rest.blocks.begin(), rest.blocks.end());  // the next pull may cross these blocks too
  }
  AnswerPull(peer, rest, out);
}

}  // namespace capstan::server
