// ClientCounters: the messages and bytes that a client has sent and received so far.
//
// Kind: a value.
#pragma once

#include <chrono>
#include <cstdint>

namespace capstan {

struct ClientCounters {
  std::uint64_t messages_in = 0, messages_out = 0;
  std::uint64_t payload_messages_in = 0, payload_messages_out = 0;  // messages with weights or a gradient
  std::uint64_t payload_bytes_in = 0, payload_bytes_out = 0;        // weights and gradients
  std::uint64_t header_bytes_in = 0, header_bytes_out = 0;          // everything else
  std::uint64_t decode_errors = 0;                                  // messages dropped as unreadable or not whole
  std::uint64_t sends_blocked = 0, sends_unreachable = 0;           // a full queue, a peer that is gone
  std::uint64_t connections_made = 0, connections_lost = 0;         // to the coordinator and the shards
  std::uint64_t unstaged_pushes = 0;                                // pushes that their shard has not staged yet
  std::uint64_t unsent_pushes = 0;   // of those, pushes that wait for the shard's credit or for room on the line
  std::uint64_t slots_left_out = 0;  // async, bounded: slots whose gradient was not finite and changes no weight
  std::chrono::steady_clock::time_point all_staged = {};  // when unstaged_pushes last fell to 0
  // Only in capstan-worker: bytes of gradients added up with other workers; bytes sent to those workers over Gloo;
  // groups joined to add up gradients; how many of these groups add up over NCCL, between devices.
  std::uint64_t reduced_bytes = 0, group_bytes_out = 0;
  std::uint64_t groups_formed = 0, device_groups_formed = 0;
};

}  // namespace capstan
