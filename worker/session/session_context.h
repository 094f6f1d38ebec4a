// SessionContext: what a session's components share: the generation and session id that their messages carry, and the
// job's catalog.
//
// Kind:   a value of the Session; its components read it.
#pragma once

#include <cstdint>
#include <optional>

#include "common/data/catalog.h"
#include "common/data/encoding.h"

namespace capstan::session {

struct SessionContext {
  Generation generation;           // 0: no generation has begun yet
  SessionId session;               // 0: this worker has not joined
  std::optional<Catalog> catalog;  // set by Declare
  Encoding encoding = Encoding::kFp32;
  bool speculates = true;  // set by Declare

  Encoding EncodingOf(BlockIndex block) const { return catalog->blocks()[block].EncodingIn(encoding); }
  std::uint64_t WeightBytesOf(BlockIndex block) const {
    return catalog->blocks()[block].count * BytesPerNumber(EncodingOf(block));
  }
};

}  // namespace capstan::session
