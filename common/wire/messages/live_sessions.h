// LiveSessions: the coordinator tells a shard which sessions are alive, and what each of them may send.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/types.h"

namespace capstan {

struct SlotRange {  // slots begin .. end - 1
  SlotIndex begin = 0, end = 0;
  bool operator==(const SlotRange&) const = default;
};

struct LiveSession {
  SessionId session;
  std::string worker;            // its worker's name
  std::vector<SlotRange> slots;  // slots that it may push and end; ascending, with gaps between the ranges
  bool founder = false;          // it may upload the job's first weights
  bool operator==(const LiveSession&) const = default;
};

// A shard has the list of all live sessions. Each LiveSessions says what has changed since an earlier one, or has the
// whole list. The shard tells in its Hello which one it took last.
struct LiveSessions {
  Term term;
  std::uint64_t sequence = 0;         // names the list that results; rises within a term, from 1
  std::uint64_t base = 0;             // the list that is changed; 0: `sessions` is the whole list
  std::vector<LiveSession> sessions;  // sessions that are new or have changed
  std::vector<SessionId> ended;       // sessions that have ended
};

}  // namespace capstan
