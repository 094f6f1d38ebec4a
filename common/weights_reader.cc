#include "common/weights_reader.h"

#include <algorithm>

#include "common/hash.h"
#include "common/messages/error.h"
#include "common/messages/fetch.h"
#include "common/messages/pull.h"
#include "common/messages/weights.h"

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
  for (Fetch& fetch : fetches_) fetch.wanted = fetch.blocks;
}

void WeightsReader::Tick(Instant now, Outbox* out) {
  for (std::size_t shard = 0; shard < fetches_.size(); ++shard) {
    const Fetch& fetch = fetches_[shard];
    const Backoff& retry = fetch.turned_away ? fetch.turned_away_retry : fetch.retry;
    if (!fetch.wanted.empty() && retry.Due(now)) Ask(shard, now, out);
  }
}

void WeightsReader::Ask(std::size_t shard, Instant now, Outbox* out) {
  Fetch& fetch = fetches_[shard];
  fetch.retry.Sent(now);
  fetch.turned_away = false;
  Pull pull;
  pull.generation = generation_;
  pull.incarnation = sources_[shard].address.incarnation;
  pull.version = version_;
  pull.array = fetch.array;
  fetch.outstanding = std::min(kWindow, fetch.wanted.size());
  pull.blocks.assign(fetch.wanted.begin(), fetch.wanted.begin() + static_cast<std::ptrdiff_t>(fetch.outstanding));
  out->Send(sources_[shard].peer, std::move(pull));
}

bool WeightsReader::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  const auto source = std::find_if(sources_.begin(), sources_.end(), [&](const Source& s) { return s.peer == from; });
  if (source == sources_.end()) return false;
  const auto shard = static_cast<std::size_t>(source - sources_.begin());
  if (const auto* weights = message.header.As<Weights>()) {
    On(shard, *weights, message.payload, now, out);
  } else if (const auto* error = message.header.As<Error>()) {
    On(shard, *error, now);
  }
  return true;
}

void WeightsReader::On(std::size_t shard, const Error& error, Instant now) {
  const ShardAddress& address = sources_[shard].address;
  if (error.code == Code::kInvalid) status_ = Invalid(address.endpoint + ": " + error.message);
  if (error.code != Code::kStale && error.code != Code::kBusy) return;
  if (error.generation != generation_ || error.incarnation != address.incarnation) {
    outdated_ = true;
  } else if (error.code == Code::kStale) {
    // What was said to an older question is not news.
    if (error.step.value > version_.value) passed_ = std::max(passed_.value_or(Step{}), error.step);
  } else if (!fetches_[shard].turned_away) {
    fetches_[shard].turned_away = true;
    fetches_[shard].turned_away_retry.Sent(now);
  }
}

void WeightsReader::On(std::size_t shard, const Weights& weights, const Slice& payload, Instant now, Outbox* out) {
  if (weights.generation != generation_ || weights.incarnation != sources_[shard].address.incarnation) return;
  Fetch& fetch = fetches_[shard];
  if (weights.asked != version_ || weights.array != fetch.array) return;  // an answer to another question
  const auto place = std::find(fetch.wanted.begin(), fetch.wanted.end(), weights.block);
  if (place == fetch.wanted.end() || !status_.ok()) return;  // a repeated one
  const Block& block = catalog_->blocks()[weights.block];
  if (weights.encoding != Encoding::kFp32 || payload.size != block.count * sizeof(float) ||
      Hash64(payload.bytes()) != weights.payload_hash) {
    status_ = Corrupt(sources_[shard].address.endpoint + ": block " + std::to_string(weights.block) +
                      " does not match its size or hash");
    return;
  }
  status_ = on_block_(block, fetch.array, payload);
  if (!status_.ok()) return;
  stop_ = stop_ || weights.stop;
  updates_ = std::min(updates_.value_or(weights.updates), weights.updates);
  fetch.wanted.erase(place);
  --missing_;
  fetch.retry.Restart();
  fetch.retry.Sent(now);
  fetch.turned_away_retry.Restart();
  if (fetch.wanted.empty() && fetch.array + 1 < arrays_) {
    ++fetch.array;
    fetch.wanted = fetch.blocks;
  }
  if (fetch.outstanding > 0) --fetch.outstanding;  // 0: it came without being asked for
  if (fetch.outstanding == 0 && !fetch.wanted.empty()) Ask(shard, now, out);
}

std::string WeightsReader::WaitingFor() const {
  std::string who;
  for (std::size_t shard = 0; shard < fetches_.size(); ++shard) {
    const Fetch& fetch = fetches_[shard];
    if (fetch.wanted.empty()) continue;
    const std::size_t all = fetch.blocks.size() * arrays_;
    const std::size_t missing = fetch.wanted.size() + fetch.blocks.size() * (arrays_ - 1 - fetch.array);
    who += (who.empty() ? "shard " : ", shard ") + std::to_string(shard) + " at " + sources_[shard].address.endpoint +
           " (" + std::to_string(all - missing) + " of " + std::to_string(all) + " blocks of version " +
           std::to_string(version_.value) + " are here)";
  }
  return who;
}

}  // namespace capstan
