// JobFacts: what every part of a coordinator may read.
//
// Kind:   references; the Job owns the objects.
#pragma once

#include <cstdint>

namespace capstan::monitoring {
struct CoordinatorMetrics;
}  // namespace capstan::monitoring

namespace capstan::server {

struct CoordinatorOptions;
class Journal;
class ShardTable;

struct JobFacts {
  const CoordinatorOptions& options;
  std::uint64_t config_hash;
  monitoring::CoordinatorMetrics& metrics;
  const Journal& journal;
  const ShardTable& shards;
};

}  // namespace capstan::server
