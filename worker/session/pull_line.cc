#include "worker/session/pull_line.h"

#include <utility>

#include "common/wire/messages/pull.h"

namespace capstan::session {

void PullLine::Begin(Version version, PullKind kind, std::uint32_t array, Instant now, Outbox* out) {
  version_ = version;
  array_ = array;
  pull_.Begin(shard_->blocks.size(), kind);
  if (kind == PullKind::kBare) return SendPull({}, now, out);
  AskForBlocks(now, out);
}

std::optional<std::size_t> PullLine::MissingIndex(const Weights& weights, std::size_t payload_bytes) const {
  const std::optional<std::size_t> index = shard_->IndexOf(weights.block);
  if (!index || pull_.arrived(*index) || weights.array != array_) return std::nullopt;
  if (weights.encoding != shard_->context.EncodingOf(weights.block)) return std::nullopt;
  if (payload_bytes != shard_->context.WeightBytesOf(weights.block)) return std::nullopt;
  return index;
}

void PullLine::Arrive(std::size_t index, Instant now) {
  pull_.Arrive(index, now);
  pace_.News(now);
}

void PullLine::TakeSpeculative(std::size_t index, std::uint32_t attempt, const Slice& payload, Instant now,
                               Outbox* out) {
  if (!pull_.TakeSpeculative(index, attempt, payload)) return;
  pace_.News(now);
  (void)MoreBlocks(now);
  SendPull(pull_.Asked(), now, out);  // the shard may now send another one
}

std::vector<ShardPull::SpeculativeBlock> PullLine::Publish(const Published& published, Instant now) {
  pace_.News(now);
  return pull_.Publish(published.attempt, published.action == StepAction::kApply, now);
}

// Returns the blocks for the next pull to name: more blocks, in forward order, as the window and the line have room. If
// the previous pull is still parked at the shard, the next one replaces it, and so names all requested blocks.
std::vector<std::size_t> PullLine::MoreBlocks(Instant now) {
  const auto ask = [&](std::size_t index) -> std::optional<LinePace::Sent> {
    const std::uint64_t bytes = shard_->context.WeightBytesOf(shard_->blocks[index]);
    if (!pace_.HasRoom(bytes)) return std::nullopt;
    return pace_.Send(++shard_->sent, bytes, now);
  };
  std::vector<std::size_t> more = pull_.AskFor(kFirstPull, kWindow, ask);
  return pull_.waits() ? pull_.Asked() : more;
}

void PullLine::AskForBlocks(Instant now, Outbox* out) {
  const std::vector<std::size_t> more = MoreBlocks(now);
  if (!more.empty()) SendPull(more, now, out);
}

void PullLine::SendLost(std::uint64_t question, Instant now, Outbox* out) {
  const bool pull_lost = pull_.follows() && pulled_ < question;
  if (!pull_.Lost(question) && !pull_lost) return;
  const std::vector<std::size_t> more = MoreBlocks(now);
  if (!more.empty() || pull_lost) SendPull(more, now, out);
}

void PullLine::SendPull(const std::vector<std::size_t>& wanted, Instant now, Outbox* out) {
  const SessionContext& context = shard_->context;
  Pull pull{
      context.generation, shard_->address.incarnation, context.session, version_, {}, array_, context.encoding, {}};
  for (std::size_t index : wanted) pull.blocks.push_back(shard_->blocks[index]);
  if (context.speculates) {
    for (std::size_t index : pull_.Candidates()) pull.speculative.push_back(shard_->blocks[index]);
  }
  pull.follows = pull_.follows();
  pulled_ = ++shard_->sent;
  pace_.Await(now);
  out->Send(shard_->peer, std::move(pull));
}

}  // namespace capstan::session
