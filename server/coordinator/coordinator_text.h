// How the coordinator names things in its messages: shards by the names under which users start them, times
// in whole seconds.
//
// Kind:   pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/types.h"

namespace capstan::server {

// After this time without a message a shard counts as silent: log lines name it, and a process with a higher
// incarnation may take over its index even if that process does not have the job's directory.
inline constexpr Instant kShardSilence = std::chrono::seconds(3);

inline std::string ShardName(ShardIndex shard, std::uint32_t per_server) {
  std::string name = "server " + std::to_string(shard / per_server);
  if (per_server > 1) name += " (shard " + std::to_string(shard % per_server) + ")";
  return name;
}

inline double ToSeconds(Instant time) { return std::chrono::duration<double>(time).count(); }
inline Instant FromSeconds(double seconds) {
  return std::chrono::duration_cast<Instant>(std::chrono::duration<double>(seconds));
}

inline std::string WholeSeconds(Instant time) { return std::to_string(static_cast<long>(ToSeconds(time))) + " s"; }

// Writes a size as text such as "900 bytes" or "12 KiB".
inline std::string BytesText(std::uint64_t bytes) {
  return bytes < 10240 ? std::to_string(bytes) + " bytes" : std::to_string(bytes >> 10) + " KiB";
}

inline std::string Count(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

inline void AddName(std::string* list, const std::string& name) { *list += (list->empty() ? "" : ", ") + name; }

}  // namespace capstan::server
