// MaySend: which role may send which message to which process. WhatItSaid: a message that was refused, in words.
//
// Kind:   pure functions of one table.
// Why:    what the protocol allows a role is one table, which can be read and tested as such. Each actor asks it in one
//         place, before its core sees the message.
#pragma once

#include <cstdint>
#include <string>

#include "common/keys/principal.h"
#include "common/wire/message.h"

namespace capstan {

// A process that only asks for the job file counts as a reader. Nobody sends the messages of a mesh to these: a group
// of workers has connections of its own, and keys for them.
enum class Receiver : std::uint8_t { kCoordinator, kShard, kWorker, kReader };

// A sender without a key may send what any role may send to this receiver: nobody can tell which role it has. A worker
// whose key is for one name may join only under that name, and nobody with another key may. A server whose key is for
// one number may speak only for that server's shards. `shards_per_server`: the job's; it matters to a coordinator.
bool MaySend(const Principal& sender, const Header& header, Receiver receiver, std::uint32_t shards_per_server = 1);

// Returns the end of a sentence about a sender whose message was refused, such as: speaks for shard 3.
std::string WhatItSaid(const Principal& sender, const Header& header);

}  // namespace capstan
