// ClusterSection: section [cluster] of the job file.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>

namespace capstan {

inline constexpr char kAutoAddress[] = "auto";

// Addresses are "host:port". Port 0 is any free port. Host "auto" is the process's own address on its route to the
// coordinator. The coordinator's may also be a Unix socket, "ipc:///PATH"; that of each shard is then one next to it.
struct ClusterSection {
  std::uint32_t servers = 1;
  std::uint32_t shards_per_server = 1;
  std::uint32_t workers = 1;
  std::uint32_t min_workers = 0;  // workers that suffice to start after half of limits.join; 0 in the file: all
  std::string coordinator = kAutoAddress;  // "auto": what the job's transport makes of it
  std::string listen = "auto:0";           // address of shards; shard j of a server takes port + j unless it is 0
  bool shared_memory = true;               // processes of one machine with local sockets read payloads where they lie
  std::string advertise;  // host name that other processes use for this one; empty: the host of `listen`
  bool operator==(const ClusterSection&) const = default;
};

}  // namespace capstan
