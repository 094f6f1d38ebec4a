// Neighbours: the connections to other shards from which a shard fetches parts of a snapshot while it loads one.
//
// Kind:   part of ShardLoop, owned by its thread.
// Why:    a connection costs sockets even if the process at its other end is gone, so the loop closes all connections
//         when no snapshot is being loaded.
#pragma once

#include <map>
#include <string>

#include "common/wire/transport.h"

namespace capstan::server {

class Neighbours {
 public:
  // `transport` outlives this object.
  explicit Neighbours(Transport* transport) : transport_(transport) {}

  // Returns the connection to the shard at this endpoint, and makes one if there is none. Whether the shard answers is
  // not checked. Returns the empty PeerId if no connection can be set up.
  PeerId Connect(const std::string& endpoint);
  void DisconnectAll();

 private:
  Transport* const transport_;
  std::map<std::string, PeerId> peers_;  // by endpoint
};

}  // namespace capstan::server
