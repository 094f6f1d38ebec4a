#include "worker/client/shard_sources.h"

#include <algorithm>

namespace capstan::client {

Status ShardSources::Connect(const std::vector<ShardAddress>& shards) {
  for (const WeightsReader::Source& old : sources_) {
    const bool stays = std::any_of(shards.begin(), shards.end(),
                                   [&](const ShardAddress& now) { return now.endpoint == old.address.endpoint; });
    if (!stays) disconnect_(old.peer);
  }
  sources_.clear();
  for (const ShardAddress& address : shards) {
    sources_.push_back({connect_(address.endpoint), address});
    if (sources_.back().peer.value != 0) continue;
    return Unreachable("shard " + std::to_string(address.shard) + " at \"" + address.endpoint +
                       "\" cannot be connected to; look at cluster.advertise and the limit of open files (ulimit -n)");
  }
  return {};
}

}  // namespace capstan::client
