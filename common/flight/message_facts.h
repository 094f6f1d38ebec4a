// MessageFacts: what a flight recorder keeps of a message. MessageName: the name of a type of message.
//
// Kind:   values and pure functions. FactsOf takes no memory, except for a text (TextOf) of a rare message.
// Why:    ids of sessions, fencing numbers and keys are secrets, and logs do not have them. So they stay out of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/types.h"
#include "common/wire/message.h"

namespace capstan {

struct MessageFacts {
  std::uint8_t type = 0;  // index in MessageTypes
  // What the message decides or reports, by type: Commit, Published: the StepAction; View: the JobPhase; Error: the
  // Code; Heartbeat: whether it computes; Hello: whether the shard serves. Messages with different codes are not
  // counted together.
  std::uint8_t code = 0;
  bool adds = false;  // whether the numbers of several messages are added up; else the newest counts
  // By type: blocks that are asked for or acknowledged, entries of a list, missing shards, or the attempt.
  std::uint32_t number = 0;
  std::uint64_t generation = 0;
  std::uint64_t position = 0;       // the step, version or clock that the message is about
  SessionId session;                // names the sender to those who know the session; 0: none
  std::optional<ShardIndex> shard;  // the shard that reports
  bool rare = false;                // it gets an event of its own, with a text
};

MessageFacts FactsOf(const Header& header);
// Returns what a rare message says besides, in words; the logs may say it, too.
std::string TextOf(const Header& header);

// Returns the name of the type with this index in MessageTypes; empty: there is none.
std::string_view MessageName(std::size_t type);
// Returns a hash of the names of all types, in order.
std::uint64_t HashOfMessageTypes();

}  // namespace capstan
