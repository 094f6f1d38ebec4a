#include "common/wire/weights_reader.h"

#include <algorithm>

#include "common/base/hash.h"
#include "common/base/utf8.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/fetch.h"
#include "common/wire/messages/pull.h"
#include "common/wire/messages/staged.h"
#include "common/wire/messages/weights.h"

namespace capstan {

WeightsReader::WeightsReader(const Catalog* catalog, std::vector<Source> sources, Generation generation,
                             Version version, OnBlock on_block, std::uint32_t arrays)
    : catalog_(catalog),
      sources_(std::move(sources)),
      generation_(generation),
      version_(version),
      on_block_(std::move(on_block)),
      arrays_(arrays),
      fetches_(sources_.size()),
      missing_(catalog->blocks().size() * arrays) {
  const std::vector<ShardIndex> placement = PlaceBlocks(*catalog_, static_cast<std::uint32_t>(sources_.size()));
  for (BlockIndex block = 0; block < placement.size(); ++block) fetches_[placement[block]].blocks.push_back(block);
  for (Fetch& fetch : fetches_) fetch.wanted = {fetch.blocks.begin(), fetch.blocks.end()};
}

void WeightsReader::Tick(Instant now, Outbox* out) {
  for (std::size_t shard = 0; shard < fetches_.size(); ++shard) Tend(shard, now, out);
}

// Requests more blocks of a shard. If an answer is overdue, sends a small question instead; its answer shows whether
// anything was lost.
void WeightsReader::Tend(std::size_t shard, Instant now, Outbox* out) {
  Fetch& fetch = fetches_[shard];
  if (fetch.missing() == 0) return;
  if (fetch.asked.empty()) return AskMore(shard, now, out);
  if (fetch.turned_away && fetch.turned_away_retry.Due(now)) {
    fetch.turned_away = false;
    std::vector<BlockIndex> blocks;
    for (const auto& [block, sent] : fetch.asked) blocks.push_back(block);
    return SendPull(shard, std::move(blocks), out);
  }
  if (!fetch.line.Due(now)) return;
  fetch.line.Asked(now);
  CoverageQuery query{generation_, sources_[shard].address.incarnation, {}, Step{version_.value}};
  query.question = ++fetch.sent;
  out->Send(sources_[shard].peer, std::move(query));
}

void WeightsReader::AskMore(std::size_t shard, Instant now, Outbox* out) {
  Fetch& fetch = fetches_[shard];
  if (fetch.asked.size() > kWindow / 2) return;
  std::vector<BlockIndex> blocks;
  while (!fetch.wanted.empty() && fetch.asked.size() < kWindow) {
    const BlockIndex block = *fetch.wanted.begin();
    const std::uint64_t bytes = catalog_->blocks()[block].count * sizeof(float);
    if (!fetch.line.HasRoom(bytes)) break;
    fetch.asked.emplace(block, fetch.line.Send(++fetch.sent, bytes, now));
    fetch.wanted.erase(fetch.wanted.begin());
    blocks.push_back(block);
  }
  if (!blocks.empty()) SendPull(shard, std::move(blocks), out);
}

void WeightsReader::SendPull(std::size_t shard, std::vector<BlockIndex> blocks, Outbox* out) const {
  Pull pull;
  pull.generation = generation_;
  pull.incarnation = sources_[shard].address.incarnation;
  pull.version = version_;
  pull.array = fetches_[shard].array;
  pull.blocks = std::move(blocks);
  out->Send(sources_[shard].peer, std::move(pull));
}

void WeightsReader::Lost(Fetch* fetch, BlockIndex block) {
  const auto asked = fetch->asked.find(block);
  if (asked == fetch->asked.end()) return;
  fetch->line.Dropped(asked->second);
  fetch->asked.erase(asked);
  fetch->wanted.insert(block);
}

// Requests lost blocks again. A shard answers a question after everything that was requested before it. So blocks that
// were requested before the question and have not arrived are lost, unless the pull is parked at the shard.
void WeightsReader::On(std::size_t shard, const Staged& answer, Instant now, Outbox* out) {
  Fetch& fetch = fetches_[shard];
  if (answer.generation != generation_ || answer.incarnation != sources_[shard].address.incarnation) return;
  if (answer.answers == 0) return;
  fetch.waits = answer.pull_waits;
  if (fetch.waits || fetch.turned_away) return;
  const auto asked = fetch.asked;
  for (const auto& [block, sent] : asked) {
    if (sent.number < answer.answers) Lost(&fetch, block);
  }
  AskMore(shard, now, out);
}

bool WeightsReader::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  const auto source = std::find_if(sources_.begin(), sources_.end(), [&](const Source& s) { return s.peer == from; });
  if (source == sources_.end()) return false;
  const auto shard = static_cast<std::size_t>(source - sources_.begin());
  if (const auto* weights = message.header.As<Weights>()) {
    On(shard, *weights, message.payload, now, out);
  } else if (const auto* answer = message.header.As<Staged>()) {
    On(shard, *answer, now, out);
  } else if (const auto* error = message.header.As<Error>()) {
    On(shard, *error, now);
  }
  return true;
}

void WeightsReader::On(std::size_t shard, const Error& error, Instant now) {
  const ShardAddress& address = sources_[shard].address;
  if (error.code == Code::kInvalid || error.code == Code::kRefused) {
    status_ = Status(error.code, address.endpoint + ": " + Excerpt(error.message, kLongExcerptBytesMax));
  }
  if (error.code != Code::kStale && error.code != Code::kBusy) return;
  if (error.generation != generation_ || error.incarnation != address.incarnation) {
    outdated_ = true;
  } else if (error.code == Code::kStale) {
    // A late answer to a pull of an earlier version has a smaller step, and says nothing about this version.
    if (error.step.value > version_.value) passed_ = std::max(passed_.value_or(Step{}), error.step);
  } else if (!fetches_[shard].turned_away) {
    fetches_[shard].turned_away = true;
    fetches_[shard].turned_away_retry.Sent(now);
  }
}

void WeightsReader::On(std::size_t shard, const Weights& weights, const Slice& payload, Instant now, Outbox* out) {
  if (weights.generation != generation_ || weights.incarnation != sources_[shard].address.incarnation) return;
  Fetch& fetch = fetches_[shard];
  if (weights.asked != version_ || weights.array != fetch.array) return;  // an answer to another pull
  const bool missing = fetch.asked.contains(weights.block) || fetch.wanted.contains(weights.block);
  if (!missing || !status_.ok()) return;  // a duplicate
  status_ = Take(shard, weights, payload, now);
  if (status_.ok()) AskMore(shard, now, out);
}

Status WeightsReader::Take(std::size_t shard, const Weights& weights, const Slice& payload, Instant now) {
  Fetch& fetch = fetches_[shard];
  const Block& block = catalog_->blocks()[weights.block];
  if (weights.encoding != Encoding::kFp32 || payload.size != block.count * sizeof(float) ||
      Hash64(payload.bytes()) != weights.payload_hash) {
    Lost(&fetch, weights.block);
    if (++fetch.damaged <= kDamagedMax) return {};
    return Corrupt(sources_[shard].address.endpoint + ": block " + std::to_string(weights.block) +
                   " does not match its size or hash, as " + std::to_string(kDamagedMax) + " before it");
  }
  if (Status status = on_block_(block, fetch.array, payload); !status.ok()) return status;
  stop_ = stop_ || weights.stop;
  updates_ = std::min(updates_.value_or(weights.updates), weights.updates);
  gradient_norm_ = weights.gradient_norm;
  if (std::exchange(fetch.waits, false)) {  // so far the pull waited for its version, not for the line
    for (auto& [index, sent] : fetch.asked) sent.at = now;
  }
  if (const auto asked = fetch.asked.find(weights.block); asked != fetch.asked.end()) {
    fetch.line.Answered(asked->second, now);
    fetch.asked.erase(asked);
  }
  fetch.wanted.erase(weights.block);
  --missing_;
  fetch.turned_away_retry.Restart();
  if (fetch.missing() == 0 && fetch.array + 1 < arrays_) {
    ++fetch.array;
    fetch.wanted = {fetch.blocks.begin(), fetch.blocks.end()};
  }
  if (fetch.missing() == 0) fetch.line.Rest();
  return {};
}

std::string WeightsReader::WaitingFor() const {
  std::string who;
  for (std::size_t shard = 0; shard < fetches_.size(); ++shard) {
    const Fetch& fetch = fetches_[shard];
    if (fetch.missing() == 0) continue;
    const std::size_t all = fetch.blocks.size() * arrays_;
    const std::size_t missing = fetch.missing() + fetch.blocks.size() * (arrays_ - 1 - fetch.array);
    who += (who.empty() ? "shard " : ", shard ") + std::to_string(shard) + " at " + sources_[shard].address.endpoint +
           " (" + std::to_string(all - missing) + " of " + std::to_string(all) + " blocks of version " +
           std::to_string(version_.value) + " are here)";
  }
  return who;
}

}  // namespace capstan
