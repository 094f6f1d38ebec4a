#include "server/weights_reader.h"

#include <algorithm>

#include "common/hash.h"

namespace capstan::server {

WeightsReader::WeightsReader(const Catalog* catalog, std::vector<Source> sources, Generation generation,
                             Version version, OnBlock on_block)
    : catalog_(catalog),
      sources_(std::move(sources)),
      generation_(generation),
      version_(version),
      on_block_(std::move(on_block)),
      fetches_(sources_.size()),
      missing_(catalog->blocks().size()) {
  const std::vector<ShardIndex> placement = PlaceBlocks(*catalog_, static_cast<std::uint32_t>(sources_.size()));
  for (BlockIndex block = 0; block < placement.size(); ++block) fetches_[placement[block]].wanted.push_back(block);
}

void WeightsReader::Tick(Instant now, Outbox* out) {
  for (std::size_t shard = 0; shard < fetches_.size(); ++shard) {
    if (!fetches_[shard].wanted.empty() && fetches_[shard].retry.Due(now)) Ask(shard, now, out);
  }
}

void WeightsReader::Ask(std::size_t shard, Instant now, Outbox* out) {
  Fetch& fetch = fetches_[shard];
  fetch.retry.Sent(now);
  Pull pull;
  pull.generation = generation_;
  pull.incarnation = sources_[shard].address.incarnation;
  pull.version = version_;
  fetch.outstanding = std::min(kWindow, fetch.wanted.size());
  pull.blocks.assign(fetch.wanted.begin(), fetch.wanted.begin() + static_cast<std::ptrdiff_t>(fetch.outstanding));
  out->Send(sources_[shard].peer, std::move(pull));
}

bool WeightsReader::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  const auto source = std::find_if(sources_.begin(), sources_.end(), [&](const Source& s) { return s.peer == from; });
  if (source == sources_.end()) return false;
  const auto shard = static_cast<std::size_t>(source - sources_.begin());
  if (const auto* weights = std::get_if<Weights>(&message.header)) {
    On(shard, *weights, message.payload, now, out);
  } else if (const auto* error = std::get_if<Error>(&message.header);
             error != nullptr && error->code == Code::kInvalid) {
    status_ = Invalid(source->address.endpoint + ": " + error->message);
  }
  return true;
}

void WeightsReader::On(std::size_t shard, const Weights& weights, const Slice& payload, Instant now, Outbox* out) {
  if (weights.generation != generation_ || weights.incarnation != sources_[shard].address.incarnation) return;
  Fetch& fetch = fetches_[shard];
  const auto place = std::find(fetch.wanted.begin(), fetch.wanted.end(), weights.block);
  if (place == fetch.wanted.end() || !status_.ok()) return;  // a repeated one
  const Block& block = catalog_->blocks()[weights.block];
  if (payload.size != block.count * sizeof(float) || Hash64(payload.bytes()) != weights.payload_hash) {
    status_ = Corrupt(sources_[shard].address.endpoint + ": block " + std::to_string(weights.block) +
                      " does not match its size or hash");
    return;
  }
  status_ = on_block_(block, payload);
  if (!status_.ok()) return;
  fetch.wanted.erase(place);
  --missing_;
  fetch.retry.Restart();
  fetch.retry.Sent(now);
  if (--fetch.outstanding == 0 && !fetch.wanted.empty()) Ask(shard, now, out);
}

}  // namespace capstan::server
