// ShardPeer: what a session knows about one shard: its address, its blocks, and how many messages were sent to it.
//
// Kind:   a value; part of a ShardLink.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "common/wire/actor.h"
#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/shard_address.h"
#include "worker/session/session_context.h"

namespace capstan::session {

struct ShardPeer {
  const SessionContext& context;
  const ShardAddress address;
  const PeerId peer;
  std::vector<BlockIndex> blocks = {};  // in catalog order, which is the order of the forward pass
  std::uint64_t sent = 0;               // number of messages that expect an answer, questions included

  // Returns the block's place in `blocks`; nullopt: the block is not on this shard.
  std::optional<std::size_t> IndexOf(BlockIndex block) const {
    const auto place = std::lower_bound(blocks.begin(), blocks.end(), block);
    if (place == blocks.end() || *place != block) return std::nullopt;
    return static_cast<std::size_t>(place - blocks.begin());
  }
  // Returns the block's place in the push order, which is the order of the backward pass: the last block comes first.
  std::optional<std::size_t> PositionOf(BlockIndex block) const {
    const std::optional<std::size_t> index = IndexOf(block);
    if (!index) return std::nullopt;
    return blocks.size() - 1 - *index;
  }
  CoverageQuery QueryOf(Step step) const { return {context.generation, address.incarnation, context.session, step}; }
};

}  // namespace capstan::session
