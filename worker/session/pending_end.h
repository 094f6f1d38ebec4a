// PendingEnd: the end of a slot that a shard has not acknowledged yet.
//
// Kind:   a value; part of Session, and used only by its sources.
#pragma once

#include "common/wire/messages/end_slot.h"
#include "worker/session/session.h"

namespace capstan::client {

struct Session::PendingEnd {
  capstan::EndSlot header;
  ShardIndex shard = 0;
  std::uint64_t number = 0;  // message number on the line to the shard
};

}  // namespace capstan::client
