// Roster: which members a job has, and where each of them is reached.
//
// Kind:   a value.
// Why:    people and monitoring find every process of a job through its coordinator, the one that all of them call.
#pragma once

#include <string>
#include <vector>

#include "common/base/types.h"

namespace capstan::server {

// `metrics`: host:port, checked to be an address; empty: it serves none.
struct Roster {
  struct Shard {
    ShardIndex index = 0;
    std::string endpoint;  // where workers reach it
    std::string metrics;   // of its process
    bool operator==(const Shard&) const = default;
  };
  struct Worker {
    std::string name;
    std::string metrics;
    bool operator==(const Worker&) const = default;
  };
  std::vector<Shard> shards;  // that have said Hello, by index
  std::vector<Worker> workers;
  bool operator==(const Roster&) const = default;
};

}  // namespace capstan::server
