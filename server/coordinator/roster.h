// Roster: a job's members and their addresses.
//
// Kind:   a value.
// Why:    users and monitoring find all processes of a job through its coordinator, which every process contacts.
#pragma once

#include <string>
#include <vector>

#include "common/base/types.h"

namespace capstan::server {

// `metrics`: host:port or https://host:port, checked to be that; empty: none.
struct Roster {
  struct Shard {
    ShardIndex index = 0;
    std::string endpoint;  // address for workers
    std::string metrics;   // its process's metrics
    bool operator==(const Shard&) const = default;
  };
  struct Worker {
    std::string name;
    std::string metrics;
    bool operator==(const Worker&) const = default;
  };
  std::vector<Shard> shards;  // shards that have sent a Hello, by index
  std::vector<Worker> workers;
  bool operator==(const Roster&) const = default;
};

}  // namespace capstan::server
