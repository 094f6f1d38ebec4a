// Session's weights: published blocks go to the application, speculative ones wait until they are published.
#include <algorithm>
#include <string>
#include <utility>

#include "common/base/hash.h"
#include "common/data/encoding.h"
#include "common/wire/messages/weights.h"
#include "worker/session/session.h"
#include "worker/session/shard_link.h"

namespace capstan::client {

// The block's place among the shard's blocks. nullopt: damaged (it is requested again), of another round, or already
// here.
std::optional<std::size_t> Session::PlaceOf(const ShardLink& link, const Weights& weights, const Slice& payload) const {
  if (round_state_ != RoundState::kPulling) return std::nullopt;
  if ((Synchronous() ? weights.version : weights.asked).value != step_.value) return std::nullopt;
  const auto place = std::lower_bound(link.blocks.begin(), link.blocks.end(), weights.block);
  if (place == link.blocks.end() || *place != weights.block) return std::nullopt;
  const auto index = static_cast<std::size_t>(place - link.blocks.begin());
  if (link.pull.arrived(index) || weights.array != 0 || weights.encoding != EncodingOf(weights.block))
    return std::nullopt;
  if (payload.size != catalog_->blocks()[weights.block].count * BytesPerNumber(weights.encoding)) return std::nullopt;
  if (Hash64(payload.bytes()) != weights.payload_hash) return std::nullopt;
  return index;
}

void Session::On(ShardLink* link, const Weights& weights, const Slice& payload, Instant now, Outbox* out) {
  if (Replicated()) return;  // none were requested
  if (weights.tentative) return OnTentative(link, weights, payload, now, out);
  if (Synchronous() && weights.version.value > 0) DropPassed(link->address.shard, Step{weights.version.value - 1});
  const std::optional<std::size_t> index = PlaceOf(*link, weights, payload);
  if (!index) return;
  if (Synchronous() && weights.stop) return EndAtStop();
  loss_scale_ = weights.loss_scale;
  if (Synchronous()) updates_ = weights.updates;
  link->pull.Arrive(*index, now);
  link->down.News(now);
  HandOver(weights.block, weights.version, payload, weights.program_state);
  GoOnPulling(link, now, out);
}

// A speculative block: kept until Published confirms it. It does not show that the shard has published anything.
void Session::OnTentative(ShardLink* link, const Weights& weights, const Slice& payload, Instant now, Outbox* out) {
  if (!Synchronous()) return;
  const std::optional<std::size_t> index = PlaceOf(*link, weights, payload);
  if (!index || !link->pull.Hold(*index, weights.attempt, payload)) return;
  link->down.News(now);
  (void)MoreBlocks(link, now);
  SendPull(link, link->pull.Asked(), now, out);  // the shard may now send another one
}

void Session::On(ShardLink* link, const Published& published, Instant now, Outbox* out) {
  if (!Synchronous()) return;
  if (published.version.value > 0) DropPassed(link->address.shard, Step{published.version.value - 1});
  if (published.version.value > made_.step.value) {
    ForgetOwed(false);
    made_ = {};
  }
  if (round_state_ != RoundState::kPulling || published.version.value != step_.value) return;
  if (published.stop) return EndAtStop();
  link->down.News(now);
  loss_scale_ = published.loss_scale;
  updates_ = published.updates;
  terms_ = {published.version, published.action,        published.made_in,
            published.held,    published.learning_rate, published.keep};
  const bool kept = published.action == StepAction::kApply;
  for (const ShardPull::Held& held : link->pull.Publish(published.attempt, kept, now)) {
    const BlockIndex block = link->blocks[held.index];
    HandOver(block, published.version, held.payload, block == 0 ? published.program_state : std::string());
  }
  GoOnPulling(link, now, out);
}

void Session::HandOver(BlockIndex block, Version version, const Slice& payload, std::string program_state) {
  if (!announced_) AnnounceWork(loss_scale_);
  events_.push_back(WeightsArrived{block, version, payload, std::move(program_state)});
}

void Session::GoOnPulling(ShardLink* link, Instant now, Outbox* out) {
  if (PullComplete()) {
    weights_complete_ = Synchronous();
    round_state_ = RoundState::kComputing;
    if (!announced_) AnnounceWork(loss_scale_);  // a pull without blocks
  } else {
    AskForBlocks(link, now, out);
  }
}

void Session::EndAtStop() {
  stop_ = true;
  round_state_ = RoundState::kNone;
  for (auto& [shard, link] : *links_) link.pull.LetGo();
}

}  // namespace capstan::client
