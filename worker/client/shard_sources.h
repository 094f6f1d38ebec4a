// ShardSources: the connections over which a reader fetches weights from a job's shards.
//
// Kind:   part of ReaderCore; a pure core, which gets the functions that connect and disconnect.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/wire/weights_reader.h"

namespace capstan::client {

class ShardSources {
 public:
  using ConnectCall = std::function<PeerId(const std::string& endpoint)>;
  using DisconnectCall = std::function<void(PeerId)>;

  ShardSources(ConnectCall connect, DisconnectCall disconnect)
      : connect_(std::move(connect)), disconnect_(std::move(disconnect)) {}

  // Connects to these shards, and disconnects from those that are not among them.
  Status Connect(const std::vector<ShardAddress>& shards);
  const std::vector<WeightsReader::Source>& all() const { return sources_; }

 private:
  const ConnectCall connect_;
  const DisconnectCall disconnect_;
  std::vector<WeightsReader::Source> sources_;
};

}  // namespace capstan::client
